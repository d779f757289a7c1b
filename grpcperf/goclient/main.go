// A closed loop of unary calls by grpc-go's own client: workers that share a pool of connections. It is told
// what to do in JSON, by an argument or else by one line on stdin, and says what it measured in one line of
// JSON on stdout. In the second case it ends with its stdin: whoever started it and dies leaves nothing behind.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// request is what it is told. Durations are seconds; without a number of calls the duration bounds the run,
// and the other way round.
type request struct {
	Target       string            `json:"target"`
	Authority    string            `json:"authority"`
	Method       string            `json:"method"`
	Workers      int               `json:"workers"`
	Connections  int               `json:"connections"`
	Pick         string            `json:"pick"`
	Retries      bool              `json:"retries"`
	Warmup       float64           `json:"warmup"`
	Duration     float64           `json:"duration"`
	Calls        int64             `json:"calls"`
	Drain        float64           `json:"drain"`
	Connect      float64           `json:"connect"`
	RequestSize  int               `json:"request_size"`
	ResponseSize int32             `json:"response_size"`
	Metadata     map[string]string `json:"metadata"`
	TLS          *tlsRequest       `json:"tls"`
}

func main() {
	text, err := told(os.Args[1:])
	if err == nil {
		err = run(text)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "grpcperf-go-client: %v\n", err)
		os.Exit(1)
	}
}

func told(arguments []string) ([]byte, error) {
	if len(arguments) > 0 {
		return []byte(arguments[0]), nil
	}
	stdin := bufio.NewReader(os.Stdin)
	line, err := stdin.ReadBytes('\n')
	go func() {
		io.Copy(io.Discard, stdin)
		os.Exit(1)
	}()
	return line, err
}

func run(text []byte) error {
	var asked request
	if err := json.Unmarshal(text, &asked); err != nil {
		return err
	}
	began := time.Now()
	pool, err := dial(&asked)
	if err != nil {
		return err
	}
	load := newLoad(&asked, pool)
	connected := time.Since(began)
	report := load.run()
	report.ConnectSeconds = connected.Seconds()
	return json.NewEncoder(os.Stdout).Encode(report)
}

func seconds(value float64) time.Duration {
	return time.Duration(value * float64(time.Second))
}
