package main

// The server's command line.

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

type options struct {
	listen   string
	behave   behaviour
	limits   limits
	grpc     []grpc.ServerOption
	tcp      net.KeepAliveConfig
	cert     string
	key      string
	clientCA string
	forward  forward
}

func parse(arguments []string) (*options, error) {
	o := &options{behave: behaviour{observeCancel: true}}
	flags := flag.NewFlagSet("grpcperf-go-server", flag.ContinueOnError)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "HOST:PORT")
	flags.StringVar(&o.cert, "tls-cert", "", "file with the certificate, PEM")
	flags.StringVar(&o.key, "tls-key", "", "file with its key, PEM")
	flags.StringVar(&o.clientCA, "tls-client-ca", "", "file with authorities, one of which clients need a certificate of")
	flags.Func("behaviour", "KEY=VALUE: what calls do unless their metadata says otherwise", func(text string) error {
		key, value, found := strings.Cut(text, "=")
		if !found {
			return errors.New("is not KEY=VALUE")
		}
		return o.behave.set(key, value)
	})
	flags.Func("limit", "what calls have to pass, as semaphore:100", func(text string) error {
		made, err := parseLimit(text)
		o.limits = append(o.limits, made)
		return err
	})
	o.keepalive(flags)
	o.forward.flags(flags)
	o.number(flags, "stream-workers", func(n int) grpc.ServerOption { return grpc.NumStreamWorkers(uint32(n)) })
	o.number(flags, "max-concurrent-streams", func(n int) grpc.ServerOption { return grpc.MaxConcurrentStreams(uint32(n)) })
	o.number(flags, "read-buffer", grpc.ReadBufferSize)
	o.number(flags, "write-buffer", grpc.WriteBufferSize)
	// Both sizes switch the sizing by measured bandwidth off, in every version.
	o.number(flags, "window", func(n int) grpc.ServerOption { return grpc.InitialWindowSize(int32(n)) })
	o.number(flags, "connection-window", func(n int) grpc.ServerOption { return grpc.InitialConnWindowSize(int32(n)) })
	o.number(flags, "max-receive", grpc.MaxRecvMsgSize)
	o.number(flags, "max-send", grpc.MaxSendMsgSize)
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	return o, o.secure()
}

// number adds a flag that becomes a server option of gRPC when it is given.
func (o *options) number(flags *flag.FlagSet, name string, option func(int) grpc.ServerOption) {
	flags.Func(name, "a number; see the server option of grpc-go", func(text string) error {
		var value int
		if _, err := fmt.Sscanf(text, "%d", &value); err != nil || value < 0 || value > 1<<31-1 {
			return fmt.Errorf("'%s' is not a whole number from 0 to 2147483647", text)
		}
		o.grpc = append(o.grpc, option(value))
		return nil
	})
}

// keepalive by gRPC, which answers to these flags together, and by TCP.
func (o *options) keepalive(flags *flag.FlagSet) {
	var parameters keepalive.ServerParameters
	for name, place := range map[string]*time.Duration{
		"time": &parameters.Time, "timeout": &parameters.Timeout, "max-idle": &parameters.MaxConnectionIdle,
		"max-age": &parameters.MaxConnectionAge, "max-age-grace": &parameters.MaxConnectionAgeGrace,
	} {
		flags.Func("keepalive-"+name, "a duration; see keepalive.ServerParameters of grpc-go", func(text string) (err error) {
			*place, err = time.ParseDuration(text)
			o.grpc = append(o.grpc, grpc.KeepaliveParams(parameters)) // the last one counts, and has them all
			return err
		})
	}
	flags.BoolFunc("keepalive-permit-without-calls", "bear PINGs on connections without calls", func(string) error {
		o.grpc = append(o.grpc, grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{PermitWithoutStream: true}))
		return nil
	})
	flags.Func("tcp-keepalive", "IDLE:INTERVAL:PROBES in seconds and as a number; 0: the kernel's", func(text string) error {
		var idle, interval, probes int
		if _, err := fmt.Sscanf(text, "%d:%d:%d", &idle, &interval, &probes); err != nil {
			return fmt.Errorf("'%s' is not IDLE:INTERVAL:PROBES", text)
		}
		const kernels = -1
		o.tcp = net.KeepAliveConfig{Enable: true, Idle: kernels, Interval: kernels, Count: kernels}
		if idle > 0 {
			o.tcp.Idle = time.Duration(idle) * time.Second
		}
		if interval > 0 {
			o.tcp.Interval = time.Duration(interval) * time.Second
		}
		if probes > 0 {
			o.tcp.Count = probes
		}
		return nil
	})
}

func (o *options) secure() error {
	if o.cert == "" {
		return nil
	}
	pair, err := readPair(o.cert, o.key)
	if err != nil {
		return err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if o.clientCA != "" {
		authorities, err := os.ReadFile(o.clientCA)
		if err != nil {
			return err
		}
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !config.ClientCAs.AppendCertsFromPEM(authorities) {
			return errors.New("there is no certificate among the authorities of clients")
		}
	}
	o.grpc = append(o.grpc, grpc.Creds(credentials.NewTLS(config)))
	return nil
}

func readPair(certFile, keyFile string) (pair tls.Certificate, err error) {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return pair, err
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return pair, err
	}
	if pair, err = tls.X509KeyPair(cert, key); err != nil {
		err = fmt.Errorf("the certificate and its key: %w", err)
	}
	return pair, err
}
