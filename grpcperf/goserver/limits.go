package main

// What stands in front of the handlers and keeps calls waiting or turns them away. Each limit has a text form.

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/status"
)

// A limit admits a call, perhaps later, perhaps only for a cheap answer; an error turns it away.
type limit interface {
	admit(ctx context.Context, counters *counters) (degraded bool, err error)
	leave()
}

// limits are passed in the order in which they were given.
type limits []limit

func (l limits) admit(ctx context.Context, counters *counters) (bool, error) {
	degraded := false
	for i, each := range l {
		cheap, err := each.admit(ctx, counters)
		if err != nil {
			l[:i].leave()
			return false, err
		}
		degraded = degraded || cheap
	}
	return degraded, nil
}

func (l limits) leave() {
	for _, each := range l {
		each.leave()
	}
}

func parseLimit(text string) (limit, error) {
	name, arguments, _ := strings.Cut(text, ":")
	switch name {
	case "semaphore":
		if slots, err := strconv.ParseUint(arguments, 10, 31); err == nil && slots > 0 {
			return make(semaphore, slots), nil
		}
		return nil, fmt.Errorf("limit '%s' is not semaphore:SLOTS", text)
	}
	return nil, fmt.Errorf("limit '%s' is unknown", text)
}

// semaphore: so many handlers at once; the others wait.
type semaphore chan struct{}

func (s semaphore) admit(ctx context.Context, counters *counters) (bool, error) {
	select {
	case s <- struct{}{}:
		return false, nil
	default:
	}
	counters.queued.Add(1)
	defer counters.queued.Add(-1)
	select {
	case s <- struct{}{}:
		return false, nil
	case <-ctx.Done():
		return false, status.FromContextError(ctx.Err()).Err()
	}
}

func (s semaphore) leave() {
	<-s
}
