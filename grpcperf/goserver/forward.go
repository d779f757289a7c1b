package main

// The next server: one connection to it, and one call there for each that is handled here.

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	connectTime = 5 * time.Second
	maxReason   = 300 // a reason grows by a name at every server that it comes by
)

// forward is where the next server is and how it is called.
type forward struct {
	address, authority          string
	security                    string // verify, any: whatever certificate it has; empty: no TLS
	ca, cert, key, securityName string
}

func (f *forward) flags(flags *flag.FlagSet) {
	for name, place := range map[string]*string{
		"forward": &f.address, "forward-authority": &f.authority, "forward-tls": &f.security, "forward-tls-ca": &f.ca,
		"forward-tls-cert": &f.cert, "forward-tls-key": &f.key, "forward-tls-name": &f.securityName,
	} {
		flags.StringVar(place, name, "", "the next server, as the native server is told it")
	}
}

type next struct {
	address string
	stub    pb.BenchmarkServiceClient
}

// connect before anything is served. Without an address there is no next server.
func (f *forward) connect() (*next, error) {
	if f.address == "" {
		return nil, nil
	}
	secure, err := f.credentials()
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(secure),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		// The limits are those of the ends of the chain.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		// A next server that is back is soon found again.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		}),
	}
	if f.authority != "" {
		options = append(options, grpc.WithAuthority(f.authority))
	} else if f.securityName != "" {
		options = append(options, grpc.WithAuthority(f.securityName))
	}
	target := f.address
	if !strings.HasPrefix(target, "unix:") {
		target = "passthrough:///" + target
	}
	conn, err := grpc.Dial(target, options...) // the name that every version has
	if err != nil {
		return nil, err
	}
	if !ready(conn) {
		return nil, fmt.Errorf("no connection to the next server, %s%s", f.address, map[bool]string{true: ", with TLS"}[f.security != ""])
	}
	return &next{f.address, pb.NewBenchmarkServiceClient(conn)}, nil
}

// ready waits for the first connection, or its failure.
func ready(conn *grpc.ClientConn) bool {
	ctx, cancel := context.WithTimeout(context.Background(), connectTime)
	defer cancel()
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.TransientFailure || !conn.WaitForStateChange(ctx, state) {
			return false
		}
	}
	return true
}

// call the next server. The deadline goes on with the context, and so does a cancellation, whether the handler
// here observes it or not.
func (n *next) call(ctx context.Context, request *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	came, _ := metadata.FromIncomingContext(ctx)
	sent := make(metadata.MD, len(came))
	for key, values := range came {
		if passes(key) {
			sent[key] = values
		}
	}
	response, err := n.stub.UnaryCall(metadata.NewOutgoingContext(ctx, sent), request)
	if err != nil {
		said := status.Convert(err)
		return nil, status.Error(said.Code(), fmt.Sprintf("%.*s", maxReason, "the next server, "+n.address+": "+said.Message()))
	}
	return response, nil
}

// passes: a user's own metadata goes on. What asks for a behaviour was meant for the server that was called;
// what belongs to the one connection, or is gRPC's own, is made anew.
func passes(key string) bool {
	switch key {
	case "user-agent", "content-type", "te", "host", "connection", "transfer-encoding", "upgrade",
		"accept-encoding", "content-encoding":
		return false
	}
	return !strings.HasPrefix(key, prefix) && !strings.HasPrefix(key, ":") && !strings.HasPrefix(key, "grpc-")
}

// errStream is the answer of a server with a next one to anything but a unary call.
var errStream = status.Error(codes.Unimplemented, "a server with a next one forwards unary calls alone")

func (f *forward) credentials() (credentials.TransportCredentials, error) {
	switch f.security {
	case "":
		return insecure.NewCredentials(), nil
	case "verify", "any":
	default:
		return nil, fmt.Errorf("--forward-tls: '%s' is none of verify and any", f.security)
	}
	config := &tls.Config{InsecureSkipVerify: f.security == "any"}
	if f.ca != "" {
		authorities, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, errors.New("there is no certificate among the authorities of the next server")
		}
	}
	if f.cert != "" {
		pair, err := readPair(f.cert, f.key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	made := credentials.NewTLS(config)
	if f.securityName == "" {
		return made, nil
	}
	return &named{made, f.securityName}, nil
}

// named expects a certificate for a name of its own: gRPC would otherwise want that and :authority to agree.
type named struct {
	credentials.TransportCredentials
	name string
}

func (n *named) ClientHandshake(ctx context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return n.TransportCredentials.ClientHandshake(ctx, n.name, conn)
}

func (n *named) Clone() credentials.TransportCredentials {
	return &named{n.TransportCredentials.Clone(), n.name}
}
