/* stub: to be written by its owner */
