// A grpc-go server of grpc.testing.BenchmarkService for the tests of the clients here. Messages are bytes: the
// one field of a request that counts, the size of the response wanted, is read by hand, so that no generated
// code is needed. It prints its port, then answers each line on stdin with its counts as JSON, and ends with
// stdin.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
)

type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

var _ encoding.CodecV2 = bytesCodec{}

var started, finished, received, sent atomic.Int64

func varint(data []byte) (value uint64, rest []byte) {
	for shift := 0; len(data) > 0 && shift < 64; shift += 7 {
		value |= uint64(data[0]&0x7f) << shift
		last := data[0] < 0x80
		data = data[1:]
		if last {
			break
		}
	}
	return value, data
}

func appendVarint(data []byte, value int) []byte {
	for ; value >= 0x80; value >>= 7 {
		data = append(data, byte(value)|0x80)
	}
	return append(data, byte(value))
}

func field(data []byte, number, size int, body []byte) []byte {
	return append(appendVarint(append(data, byte(number<<3|2)), size), body...)
}

// response is a SimpleResponse with as many bytes of body as field 2 of the request asks for.
func response(request []byte) []byte {
	size := 0
	for len(request) > 0 {
		var tag, value uint64
		tag, request = varint(request)
		value, request = varint(request)
		if tag == 2<<3 {
			size = int(value)
		}
		if tag&7 == 2 {
			request = request[min(int(value), len(request)):]
		}
	}
	payload := field(nil, 2, size, make([]byte, size))
	return field(nil, 1, len(payload), payload)
}

type handler func(stream grpc.ServerStream) error

func receive(stream grpc.ServerStream) (message []byte, err error) {
	err = stream.RecvMsg(&message)
	if err == nil {
		received.Add(1)
	}
	return message, err
}

func send(stream grpc.ServerStream, message []byte) error {
	err := stream.SendMsg(&message)
	if err == nil {
		sent.Add(1)
	}
	return err
}

func unary(stream grpc.ServerStream) error {
	request, err := receive(stream)
	if err != nil {
		return err
	}
	return send(stream, response(request))
}

func pingPong(stream grpc.ServerStream) error {
	for {
		request, err := receive(stream)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err = send(stream, response(request)); err != nil {
			return err
		}
	}
}

func fromClient(stream grpc.ServerStream) error {
	var last []byte
	for {
		request, err := receive(stream)
		if errors.Is(err, io.EOF) {
			return send(stream, response(last))
		}
		if err != nil {
			return err
		}
		last = request
	}
}

func fromServer(stream grpc.ServerStream) error {
	request, err := receive(stream)
	if err != nil {
		return err
	}
	for answer := response(request); ; {
		if err = send(stream, answer); err != nil {
			return err
		}
	}
}

func bothWays(stream grpc.ServerStream) error {
	request, err := receive(stream)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := receive(stream); err != nil {
				ended <- err
				return
			}
		}
	}()
	for answer := response(request); ; {
		select {
		case err = <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		default:
		}
		if err = send(stream, answer); err != nil {
			return err
		}
	}
}

func counted(handle handler) grpc.StreamHandler {
	return func(_ any, stream grpc.ServerStream) error {
		started.Add(1)
		defer finished.Add(1)
		return handle(stream)
	}
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(bytesCodec{}))
	service := grpc.ServiceDesc{ServiceName: "grpc.testing.BenchmarkService", HandlerType: (*any)(nil)}
	for name, handle := range map[string]handler{
		"UnaryCall": unary, "StreamingCall": pingPong, "StreamingFromClient": fromClient,
		"StreamingFromServer": fromServer, "StreamingBothWays": bothWays,
	} {
		service.Streams = append(service.Streams, grpc.StreamDesc{
			StreamName: name, Handler: counted(handle), ServerStreams: true, ClientStreams: true,
		})
	}
	server.RegisterService(&service, nil)
	go server.Serve(listener)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		json.NewEncoder(os.Stdout).Encode(map[string]int64{
			"started": started.Load(), "finished": finished.Load(),
			"received": received.Load(), "sent": sent.Load(),
		})
	}
}
