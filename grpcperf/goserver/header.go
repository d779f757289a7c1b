//go:build !grpc_tap_without_header

package main

import (
	"context"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"
)

// header is a call's metadata, which is gRPC's own and not to be changed.
func header(_ context.Context, info *tap.Info) metadata.MD {
	return info.Header
}
