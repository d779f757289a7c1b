package main

// What a call asks for, found out when its header arrives and before it has a handler. gRPC shows the header
// there without copying it, so that a call that asks for nothing pays one allocation for being looked at.

import (
	"context"

	"google.golang.org/grpc/tap"
)

// asked goes with the context of a call that is not a plain one.
type asked struct {
	context.Context
	behaviour behaviour
	refusal   error
}

type askedKey struct{}

func (a *asked) Value(key any) any {
	if key == (askedKey{}) {
		return a
	}
	return a.Context.Value(key)
}

func (s *service) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	wants, found, err := s.defaults.askedIn(header(ctx, info))
	if !found {
		return ctx, nil
	}
	return &asked{ctx, wants, err}, nil
}
