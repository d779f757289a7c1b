/* stub: to be written by its owner */
int main(void) { return 0; }
