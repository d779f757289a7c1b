package main

// The server's counts. They mean what those of the native server mean.

import "sync/atomic"

type counters struct {
	running          atomic.Int64 // handlers begun and not ended
	peakRunning      atomic.Int64
	parked           atomic.Int64
	queued           atomic.Int64
	started          atomic.Int64 // handlers
	finished         atomic.Int64
	rejected         atomic.Int64 // calls refused before a handler began
	pruned           atomic.Int64 // of these, for want of time
	degraded         atomic.Int64 // calls with a cheap answer instead of a handler
	cancelled        atomic.Int64
	deadlineExceeded atomic.Int64
	workAfterCancel  atomic.Int64 // ns
}

func (c *counters) begin() {
	running := c.running.Add(1)
	for peak := c.peakRunning.Load(); running > peak; peak = c.peakRunning.Load() {
		if c.peakRunning.CompareAndSwap(peak, running) {
			break
		}
	}
	c.started.Add(1)
}

func (c *counters) end() {
	c.running.Add(-1)
	c.finished.Add(1)
}

func (c *counters) resetPeaks() {
	c.peakRunning.Store(c.running.Load())
}

// read gives all at one moment, by the names that the other side has for them. What ends is read before what
// begins, so that a difference is never below zero.
func (c *counters) read() map[string]int64 {
	finished := c.finished.Load()
	return map[string]int64{
		"finished":             finished,
		"started":              c.started.Load(),
		"running":              c.running.Load(),
		"peak_running":         c.peakRunning.Load(),
		"parked":               c.parked.Load(),
		"queued":               c.queued.Load(),
		"rejected":             c.rejected.Load(),
		"pruned":               c.pruned.Load(),
		"degraded":             c.degraded.Load(),
		"cancelled":            c.cancelled.Load(),
		"deadline_exceeded":    c.deadlineExceeded.Load(),
		"work_after_cancel_us": c.workAfterCancel.Load() / 1000,
	}
}
