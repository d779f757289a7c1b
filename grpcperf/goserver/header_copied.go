//go:build grpc_tap_without_header

package main

import (
	"context"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"
)

// header is a call's metadata: a copy, for older versions show it in no other way. It costs 6 allocations.
func header(ctx context.Context, _ *tap.Info) metadata.MD {
	entries, _ := metadata.FromIncomingContext(ctx)
	return entries
}
