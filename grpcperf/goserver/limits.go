package main

// What stands between a call and its handler, in the order in which it was asked for. A call that waits has
// its goroutine already. Each limit has a text form.

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errDegraded: the call gets a cheap answer instead of its handler's.
var errDegraded = errors.New("degraded")

// A limit admits a call, perhaps later; errDegraded or the status of a refusal is its other word.
type limit interface {
	enter(ctx context.Context, counters *counters) error
	leave()
}

type limits []limit

func (l limits) enter(ctx context.Context, counters *counters) error {
	for i, each := range l {
		if err := each.enter(ctx, counters); err != nil {
			l[:i].leave()
			return err
		}
	}
	return nil
}

// leave gives back what the limits gave, and thereby lets the next ones in.
func (l limits) leave() {
	for i := range l {
		l[len(l)-1-i].leave()
	}
}

func parseLimit(text string) (limit, error) {
	fields := strings.Split(text, ":")
	switch {
	case fields[0] == "semaphore" && len(fields) == 2:
		if slots, err := strconv.ParseUint(fields[1], 10, 31); err == nil && slots > 0 {
			return make(semaphore, slots), nil
		}
	case fields[0] == "rate" && len(fields) >= 2:
		if made := parseRate(fields[1:]); made != nil {
			return made, nil
		}
	case fields[0] == "prune" && len(fields) == 2:
		if below, err := time.ParseDuration(fields[1]); err == nil && below >= 0 {
			return prune(below), nil
		}
	}
	return nil, fmt.Errorf("limit '%s' is none of semaphore:N, rate:PER_S[:burst=N][:reject|:degrade], prune:TIME", text)
}

// semaphore: at most so many handlers; the others wait in the order in which they came.
type semaphore chan struct{}

func (s semaphore) enter(ctx context.Context, counters *counters) error {
	select {
	case s <- struct{}{}:
		return nil
	default:
	}
	counters.queued.Add(1)
	defer counters.queued.Add(-1)
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (s semaphore) leave() {
	<-s
}

// rate: so many calls a second, by a token bucket.
type rate struct {
	perSecond, burst float64
	degrades         bool

	lock   sync.Mutex
	tokens float64
	at     time.Time
}

func parseRate(fields []string) *rate {
	perSecond, err := strconv.ParseFloat(fields[0], 64)
	if err != nil || perSecond <= 0 {
		return nil
	}
	r := &rate{perSecond: perSecond, burst: 100, at: time.Now()}
	for _, field := range fields[1:] {
		burst, isBurst := strings.CutPrefix(field, "burst=")
		number, err := strconv.ParseUint(burst, 10, 31)
		switch {
		case isBurst && err == nil && number > 0:
			r.burst = float64(number)
		case field == "reject" || field == "degrade":
			r.degrades = field == "degrade"
		default:
			return nil
		}
	}
	r.tokens = r.burst
	return r
}

func (r *rate) enter(_ context.Context, counters *counters) error {
	switch {
	case r.take(time.Now()):
		return nil
	case r.degrades:
		counters.degraded.Add(1)
		return errDegraded
	}
	counters.rejected.Add(1)
	return status.Errorf(codes.ResourceExhausted, "more than %g calls a second", r.perSecond)
}

func (r *rate) take(now time.Time) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	if gone := now.Sub(r.at); gone > 0 { // two calls may come with their readings in the wrong order
		r.tokens = min(r.tokens+gone.Seconds()*r.perSecond, r.burst)
		r.at = now
	}
	if r.tokens < 1 {
		return false
	}
	r.tokens--
	return true
}

func (r *rate) leave() {}

// prune: no calls whose deadline leaves too little; those without one pass.
type prune time.Duration

func (p prune) enter(ctx context.Context, counters *counters) error {
	deadline, has := ctx.Deadline()
	if !has || time.Until(deadline) >= time.Duration(p) {
		return nil
	}
	counters.rejected.Add(1)
	counters.pruned.Add(1)
	return status.Errorf(codes.DeadlineExceeded, "the deadline leaves less than %d us", time.Duration(p).Microseconds())
}

func (p prune) leave() {}
