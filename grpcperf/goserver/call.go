package main

// One call: its way past the limits, what its handler does before it answers (allocate, burn CPU, wait, park,
// in this order), and its end. A call lives on its goroutine's stack, for what is measured is gRPC's.

import (
	"context"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	pageBytes         = 4096
	threadCPUTime     = 3 // CLOCK_THREAD_CPUTIME_ID
	looksAtCancelOnce = 50 * time.Microsecond
)

type kind int

const (
	unary kind = iota
	streaming
)

type call struct {
	service   *service
	ctx       context.Context
	behaviour behaviour
	gate      <-chan struct{} // where it is held
	accepted  time.Time       // only with a deadline
	deadline  time.Time       // zero: none
	cancelled time.Time       // when it became known; zero: is not
	ballast   []byte
	ended     bool
}

// enter takes a call past the limits; its handler has begun when there is no error. errDegraded asks for a cheap
// answer instead of one.
func (s *service) enter(ctx context.Context, kind kind) (call, error) {
	c := call{service: s, ctx: ctx, behaviour: s.defaults}
	if a, _ := ctx.Value(askedKey{}).(*asked); a != nil {
		c.behaviour = a.behaviour
		if a.refusal != nil {
			return c, status.Error(codes.InvalidArgument, a.refusal.Error())
		}
	}
	if deadline, has := ctx.Deadline(); has {
		c.deadline, c.accepted = deadline, time.Now()
	}
	if c.behaviour.hold != holdNot {
		c.gate = s.parking.gate() // the one that is there now: a release lets go what has come before it
	}
	if err := s.limits.enter(ctx, &s.counters); err != nil {
		c.lookForCancel()
		return c, err
	}
	s.counters.begin()
	if s.next != nil && kind == streaming {
		c.end()
		return c, errStream
	}
	return c, nil
}

// end: the handler has ended, and the call counts as finished, whatever gRPC still has to do with it.
func (c *call) end() {
	if c.ended {
		return
	}
	c.ended = true
	c.lookForCancel()
	over := c.deadline // since when nobody wanted the work
	if !c.cancelled.IsZero() && (over.IsZero() || c.cancelled.Before(over)) {
		over = c.cancelled
	}
	if !over.IsZero() {
		if late := time.Since(over); late > 0 {
			c.service.counters.workAfterCancel.Add(int64(late))
		}
	}
	runtime.KeepAlive(c.ballast)
	c.service.counters.end()
	c.service.limits.leave()
}

// behave as asked. first is what the method does with its first message, nil where that has come with the call.
// An error is what the call is to be answered with.
func (c *call) behave(first func() (more bool, err error)) error {
	asked := &c.behaviour
	if asked.allocBytes > 0 {
		if !affordable(asked.allocBytes) {
			return status.Error(codes.ResourceExhausted, "no memory for grpcperf-alloc-bytes")
		}
		c.ballast = allocate(asked.allocBytes)
	}
	if asked.busy > 0 {
		c.burn()
	}
	if err := c.unwanted(); err != nil && asked.observeCancel {
		return err
	}
	if asked.delay > 0 {
		timer := time.NewTimer(asked.delay)
		err := wait(c, timer.C)
		timer.Stop()
		if err != nil {
			return err
		}
	}
	if asked.hold == holdAfterFirst && first != nil {
		if _, err := first(); err != nil {
			return err
		}
	}
	if asked.hold != holdNot {
		c.service.counters.parked.Add(1)
		err := wait(c, c.gate)
		c.service.counters.parked.Add(-1)
		if err != nil {
			return err
		}
	}
	if err := c.unwanted(); err != nil {
		return err
	}
	if asked.status != codes.OK {
		return status.Error(asked.status, "as grpcperf-status asked")
	}
	return nil
}

// wait until it is over, or until the call is and observes that.
func wait[T any](c *call, over <-chan T) error {
	select {
	case <-over:
		return nil
	case <-c.ctx.Done():
	}
	if err := c.unwanted(); c.behaviour.observeCancel {
		return err
	}
	<-over
	return nil
}

// unwanted is the error of a call that was cancelled or whose deadline has passed.
func (c *call) unwanted() error {
	c.lookForCancel()
	if err := c.ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return nil
}

// lookForCancel counts a cancellation once, when it becomes known. The client gives up at its own deadline,
// which is earlier than ours by the way here, so one a little before ours is the deadline's too.
func (c *call) lookForCancel() {
	if !c.cancelled.IsZero() || c.ctx.Err() == nil {
		return
	}
	c.cancelled = time.Now()
	if !c.deadline.IsZero() {
		timeout := c.deadline.Sub(c.accepted)
		slack := min(5*time.Millisecond+timeout/32, timeout/4)
		if !c.cancelled.Add(slack).Before(c.deadline) {
			c.service.counters.deadlineExceeded.Add(1)
			return
		}
	}
	c.service.counters.cancelled.Add(1)
}

// burn CPU, by the thread's own clock: on crowded cores the work must not shrink.
func (c *call) burn() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	until, look := threadCPU()+c.behaviour.busy, time.Duration(0)
	for now := threadCPU(); now < until; now = threadCPU() {
		if now < look {
			continue
		}
		look = now + looksAtCancelOnce
		if c.unwanted() != nil && c.behaviour.observeCancel {
			return
		}
	}
}

func threadCPU() time.Duration {
	var now syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPUTime, uintptr(unsafe.Pointer(&now)), 0)
	return time.Duration(now.Nano())
}

// affordable: whether the machine could have that much. Go ends the whole process when it gets no memory.
func affordable(bytes int64) bool {
	var machine syscall.Sysinfo_t
	return syscall.Sysinfo(&machine) == nil && uint64(bytes) < machine.Totalram*uint64(machine.Unit)/2
}

func allocate(bytes int64) []byte {
	ballast := make([]byte, bytes)
	for i := int64(0); i < bytes; i += pageBytes {
		ballast[i] = 1
	}
	return ballast
}
