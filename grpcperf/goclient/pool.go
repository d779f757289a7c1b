package main

// The connections, and which of them takes the next call.

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const connectingMost = 128 // at a time: more overflow the server's listen queue and cost seconds

type tlsRequest struct {
	CA         string `json:"ca"`
	Cert       string `json:"cert"`
	Key        string `json:"key"`
	ServerName string `json:"server_name"`
	Verify     bool   `json:"verify"`
}

type connection struct {
	*grpc.ClientConn
	inFlight atomic.Int64 // counted for leastLoaded alone
}

type pool struct {
	connections []*connection
	next        atomic.Uint64
	lock        sync.Mutex
	turn        int // under the lock
	pick        func(*pool) *connection
	counted     bool
}

var picks = map[string]func(*pool) *connection{
	"round_robin": func(p *pool) *connection {
		return p.connections[p.next.Add(1)%uint64(len(p.connections))]
	},
	"locked": func(p *pool) *connection {
		p.lock.Lock()
		defer p.lock.Unlock()
		p.turn = (p.turn + 1) % len(p.connections)
		return p.connections[p.turn]
	},
	"least_loaded": func(p *pool) *connection {
		least := p.connections[0]
		load := least.inFlight.Load()
		for _, one := range p.connections[1:] {
			if its := one.inFlight.Load(); its < load {
				least, load = one, its
			}
		}
		return least
	},
}

func (p *pool) take() *connection {
	taken := p.pick(p)
	if p.counted {
		taken.inFlight.Add(1)
	}
	return taken
}

func (p *pool) giveBack(taken *connection) {
	if p.counted {
		taken.inFlight.Add(-1)
	}
}

// dial sets up all connections and waits until they are there.
func dial(asked *request) (*pool, error) {
	made := &pool{pick: picks[asked.Pick], counted: asked.Pick == "least_loaded"}
	if made.pick == nil {
		return nil, fmt.Errorf("pick %q is not known", asked.Pick)
	}
	options, err := dialOptions(asked)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), seconds(asked.Connect))
	defer cancel()
	made.connections = make([]*connection, asked.Connections)
	failed := make([]error, asked.Connections)
	var all sync.WaitGroup
	room := make(chan struct{}, connectingMost)
	for i := range made.connections {
		all.Add(1)
		room <- struct{}{}
		go func(i int) {
			defer all.Done()
			made.connections[i], failed[i] = connect(ctx, asked.Target, options)
			<-room
		}(i)
	}
	all.Wait()
	return made, errors.Join(failed...)
}

func connect(ctx context.Context, target string, options []grpc.DialOption) (*connection, error) {
	conn, err := grpc.Dial(target, options...) // there is no NewClient in older versions
	if err != nil {
		return nil, err
	}
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			return nil, fmt.Errorf("no connection to %s: it is %s", target, state)
		}
	}
	return &connection{ClientConn: conn}, nil
}

func dialOptions(asked *request) ([]grpc.DialOption, error) {
	var options []grpc.DialOption
	if asked.Authority != "" {
		options = append(options, grpc.WithAuthority(asked.Authority))
	}
	if !asked.Retries {
		options = append(options, grpc.WithDisableRetry())
	}
	if asked.TLS == nil {
		return append(options, grpc.WithTransportCredentials(insecure.NewCredentials())), nil
	}
	config := &tls.Config{ServerName: asked.TLS.ServerName, InsecureSkipVerify: !asked.TLS.Verify}
	if asked.TLS.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(asked.TLS.CA)) {
			return nil, errors.New("there is no certificate among the authorities to trust")
		}
	}
	if asked.TLS.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(asked.TLS.Cert), []byte(asked.TLS.Key))
		if err != nil {
			return nil, fmt.Errorf("the client's certificate and its key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return append(options, grpc.WithTransportCredentials(credentials.NewTLS(config))), nil
}
