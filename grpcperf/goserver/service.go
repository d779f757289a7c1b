package main

// The five methods of grpc.testing.BenchmarkService, written as a user of grpc-go would write them, with the
// messages and stubs that come with it.
//
// A parked stream reads nothing, or one message when asked to: reading on would take a second goroutine, or a
// context of its own to be ended by, and what a call costs is what is measured.

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

const (
	maxResponseBytes = 1 << 30
	sharedZeroBytes  = 1 << 20
)

type service struct {
	pb.UnimplementedBenchmarkServiceServer
	defaults behaviour
	limits   limits
	counters counters
	parking  parking
	next     *next // nil: this is the last one
}

// zeros are the bodies of all answers; never written, so that the kernel backs them with its one page.
var zeros [sharedZeroBytes]byte

func check(request *pb.SimpleRequest) error {
	if size := request.GetResponseSize(); size < 0 || size > maxResponseBytes {
		return status.Errorf(codes.InvalidArgument, "response_size must be from 0 to %d", maxResponseBytes)
	}
	return nil
}

func answer(request *pb.SimpleRequest) *pb.SimpleResponse {
	size := int(request.GetResponseSize())
	if size <= sharedZeroBytes {
		return &pb.SimpleResponse{Payload: &pb.Payload{Body: zeros[:size:size]}}
	}
	return &pb.SimpleResponse{Payload: &pb.Payload{Body: make([]byte, size)}}
}

// cheap is the answer of a degraded call.
func cheap() *pb.SimpleResponse {
	return &pb.SimpleResponse{Payload: &pb.Payload{}}
}

// begin a call that came with its request, which is for the last server to check.
func (s *service) begin(ctx context.Context, kind kind, request *pb.SimpleRequest) (call, error) {
	c, err := s.enter(ctx, kind)
	if err != nil {
		return c, err
	}
	if s.next == nil {
		err = check(request)
	}
	if err == nil {
		err = c.behave(nil)
	}
	if err != nil {
		c.end()
	}
	return c, err
}

func (s *service) UnaryCall(ctx context.Context, request *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	c, err := s.begin(ctx, unary, request)
	if err == errDegraded {
		return cheap(), nil
	}
	if err != nil {
		return nil, err
	}
	defer c.end()
	if s.next != nil {
		return s.next.call(ctx, request)
	}
	return answer(request), nil
}

// StreamingCall answers each request in turn.
func (s *service) StreamingCall(stream pb.BenchmarkService_StreamingCallServer) error {
	c, err := s.enter(stream.Context(), streaming)
	if err == errDegraded {
		return nil
	}
	if err != nil {
		return err
	}
	defer c.end()
	exchange := func() (more bool, err error) { return exchange(stream, c.behaviour.messageDelay) }
	if err := c.behave(exchange); err != nil || c.behaviour.hold != holdNot {
		return err
	}
	for more := true; more && err == nil; {
		more, err = exchange()
	}
	return err
}

// StreamingFromClient takes requests for as long as the client likes, then answers once.
func (s *service) StreamingFromClient(stream pb.BenchmarkService_StreamingFromClientServer) error {
	c, err := s.enter(stream.Context(), streaming)
	if err == errDegraded {
		return stream.SendAndClose(cheap())
	}
	if err != nil {
		return err
	}
	defer c.end()
	var last *pb.SimpleRequest
	take := func() (more bool, err error) {
		request, err := receive(stream)
		if request != nil {
			last = request
		}
		return request != nil, err
	}
	if err := c.behave(take); err != nil {
		return err
	}
	for more := c.behaviour.hold == holdNot; more; {
		if more, err = take(); err != nil {
			return err
		}
	}
	c.end()
	return stream.SendAndClose(answer(last))
}

// StreamingFromServer answers until the client ends the call.
func (s *service) StreamingFromServer(request *pb.SimpleRequest, stream pb.BenchmarkService_StreamingFromServerServer) error {
	c, err := s.begin(stream.Context(), streaming, request)
	if err == errDegraded {
		return stream.Send(cheap())
	}
	if err != nil {
		return err
	}
	defer c.end()
	response := answer(request)
	if c.behaviour.hold != holdNot {
		c.end()
		return stream.Send(response)
	}
	for err == nil {
		err = stream.Send(response)
	}
	return err
}

// StreamingBothWays sends as it likes, in the size that the first request asks for, until the client has
// ended its side.
func (s *service) StreamingBothWays(stream pb.BenchmarkService_StreamingBothWaysServer) error {
	c, err := s.enter(stream.Context(), streaming)
	if err == errDegraded {
		return nil
	}
	if err != nil {
		return err
	}
	defer c.end()
	exchange := func() (more bool, err error) { return exchange(stream, 0) }
	if err := c.behave(exchange); err != nil || c.behaviour.hold != holdNot {
		return err
	}
	request, err := receive(stream)
	if request == nil {
		return err
	}
	read := make(chan error, 1)
	go func() { read <- drain(stream) }()
	response := answer(request)
	for {
		select {
		case err := <-read:
			return err
		default:
		}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}

type receiver interface {
	Recv() (*pb.SimpleRequest, error)
}

// receive gives the next request, or none when the client has ended its side.
func receive(stream receiver) (*pb.SimpleRequest, error) {
	request, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err == nil {
		err = check(request)
	}
	if err != nil {
		return nil, err
	}
	return request, nil
}

type exchanger interface {
	receiver
	Context() context.Context
	Send(*pb.SimpleResponse) error
}

// exchange a request for an answer, after a delay, unless the client has ended its side.
func exchange(stream exchanger, delay time.Duration) (more bool, err error) {
	request, err := receive(stream)
	if request == nil {
		return false, err
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-stream.Context().Done():
		}
	}
	return true, stream.Send(answer(request))
}

func drain(stream receiver) error {
	for {
		if request, err := receive(stream); request == nil {
			return err
		}
	}
}
