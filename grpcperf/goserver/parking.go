package main

// Where held calls wait: all at one gate, which opens once and makes room for the next.

import "sync"

type parking struct {
	lock   sync.Mutex
	closed chan struct{} // nil: nobody has come since the last one opened
}

func (p *parking) gate() <-chan struct{} {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.closed == nil {
		p.closed = make(chan struct{})
	}
	return p.closed
}

func (p *parking) release() {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.closed != nil {
		close(p.closed)
		p.closed = nil
	}
}
