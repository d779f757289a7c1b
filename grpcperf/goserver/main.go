// A grpc-go server of grpc.testing.BenchmarkService that reports on itself. It says in one line of JSON on
// stdout when it is ready and where, and serves until it is killed.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "grpcperf-go-server: %v\n", err)
		os.Exit(1)
	}
}

func serve(arguments []string) error {
	options, err := parse(arguments)
	if err != nil {
		return err
	}
	config := net.ListenConfig{KeepAliveConfig: options.tcp}
	listener, err := config.Listen(context.Background(), "tcp", options.listen)
	if err != nil {
		return err
	}
	next, err := options.forward.connect()
	if err != nil {
		return err
	}
	service := &service{defaults: options.behave, limits: options.limits, next: next}
	reports, err := serveReports(service)
	if err != nil {
		return err
	}
	server := grpc.NewServer(append(options.grpc, grpc.InTapHandle(service.tap))...)
	pb.RegisterBenchmarkServiceServer(server, service)
	ready := map[string]any{
		"port":     listener.Addr().(*net.TCPAddr).Port,
		"reports":  reports.(*net.TCPAddr).Port,
		"versions": fmt.Sprintf("grpc-go %s, go %s", grpc.Version, strings.TrimPrefix(runtime.Version(), "go")),
	}
	if err := json.NewEncoder(os.Stdout).Encode(ready); err != nil {
		return err
	}
	return server.Serve(listener)
}
