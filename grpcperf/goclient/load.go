package main

// The closed loop: each worker sends its next call when it has the answer to its last one.
//
// A measured call is one that was sent inside the measured window, and rates are of completions inside it, as
// in grpcperf's own load.

import (
	"context"
	"fmt"
	"math/rand"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const inFlightAtEnd = "in_flight_at_end"

// names are gRPC's; grpc-go spells them otherwise.
var names = map[codes.Code]string{
	codes.OK: "OK", codes.Canceled: "CANCELLED", codes.Unknown: "UNKNOWN",
	codes.InvalidArgument: "INVALID_ARGUMENT", codes.DeadlineExceeded: "DEADLINE_EXCEEDED",
	codes.NotFound: "NOT_FOUND", codes.AlreadyExists: "ALREADY_EXISTS",
	codes.PermissionDenied: "PERMISSION_DENIED", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
	codes.FailedPrecondition: "FAILED_PRECONDITION", codes.Aborted: "ABORTED",
	codes.OutOfRange: "OUT_OF_RANGE", codes.Unimplemented: "UNIMPLEMENTED", codes.Internal: "INTERNAL",
	codes.Unavailable: "UNAVAILABLE", codes.DataLoss: "DATA_LOSS", codes.Unauthenticated: "UNAUTHENTICATED",
}

type worker struct {
	ok                int64
	classes           map[string]int64 // of the others
	okInWindow, ended int64            // completions inside the window, whenever they were sent
	last              time.Time        // when its last measured call ended
	cause             string           // of its first failure
}

type load struct {
	asked   *request
	pool    *pool
	message *pb.SimpleRequest
	ctx     context.Context
	cancel  context.CancelFunc
	start   time.Time
	end     atomic.Int64 // of the window, in ns from its start; far away while it is not known
	left    atomic.Int64 // measured calls to be sent
	stop    atomic.Bool
	cut     atomic.Bool // what is in flight now was cancelled

	workers   []worker
	latencies []histogram
	failures  []histogram
}

type report struct {
	Status          map[string]int64 `json:"status"`
	Causes          []string         `json:"causes"`
	Latency         distribution     `json:"latency"`
	ErrorLatency    distribution     `json:"error_latency"`
	OKInWindow      int64            `json:"ok_in_window"`
	AllInWindow     int64            `json:"all_in_window"`
	WindowSeconds   float64          `json:"window_s"`
	ConnectSeconds  float64          `json:"connect_s"`
	CPUSeconds      float64          `json:"client_cpu_s"`
	ContextSwitches int64            `json:"context_switches"`
	Versions        string           `json:"versions"`
}

func newLoad(asked *request, pool *pool) *load {
	body := make([]byte, asked.RequestSize)
	rand.New(rand.NewSource(1)).Read(body)
	l := &load{
		asked:     asked,
		pool:      pool,
		message:   &pb.SimpleRequest{ResponseSize: asked.ResponseSize, Payload: &pb.Payload{Body: body}},
		workers:   make([]worker, asked.Workers),
		latencies: make([]histogram, asked.Workers),
		failures:  make([]histogram, asked.Workers),
	}
	l.ctx, l.cancel = context.WithCancel(metadata.NewOutgoingContext(context.Background(), metadata.New(asked.Metadata)))
	l.end.Store(1<<63 - 1)
	l.left.Store(1<<63 - 1)
	if asked.Calls > 0 {
		l.left.Store(asked.Calls)
	}
	return l
}

// used is the CPU of this process so far, and how often a thread of it gave way or was made to.
func used() (cpu time.Duration, switches int64) {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0, 0
	}
	cpu = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return cpu, int64(usage.Nvcsw) + int64(usage.Nivcsw)
}

func (l *load) run() *report {
	var working sync.WaitGroup
	l.start = time.Now().Add(seconds(l.asked.Warmup))
	for i := range l.workers {
		l.workers[i].classes = map[string]int64{}
		working.Add(1)
		go func(i int) { // of the loop's own: all share one in Go before 1.22
			defer working.Done()
			l.work(i)
		}(i)
	}
	done := make(chan struct{})
	go func() {
		working.Wait()
		close(done)
	}()
	time.Sleep(time.Until(l.start))
	cpu, switches := used()
	l.await(done)
	made := &report{}
	cpuAfter, switchesAfter := used()
	made.CPUSeconds, made.ContextSwitches = (cpuAfter - cpu).Seconds(), switchesAfter-switches
	l.drain(done)
	l.tell(made)
	return made
}

// await the end of the window: the last of so many calls, or its time.
func (l *load) await(done <-chan struct{}) {
	var timeUp <-chan time.Time
	if l.asked.Duration > 0 {
		timeUp = time.After(time.Until(l.start.Add(seconds(l.asked.Duration))))
	}
	select {
	case <-done: // the window ends with the last call, see tell
	case <-timeUp:
		l.end.Store(int64(time.Since(l.start)))
		l.stop.Store(true)
	}
}

func (l *load) drain(done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(seconds(l.asked.Drain)):
		l.cut.Store(true)
		l.cancel()
		<-done
	}
}

func (l *load) work(number int) {
	own := &l.workers[number]
	answer := &pb.SimpleResponse{}
	for !l.stop.Load() {
		sent := time.Now()
		measured := !sent.Before(l.start)
		if measured && l.left.Add(-1) < 0 {
			return
		}
		taken := l.pool.take()
		err := l.call(taken.ClientConn, answer)
		l.pool.giveBack(taken)
		l.note(number, own, sent, measured, err)
	}
}

func (l *load) call(conn *grpc.ClientConn, answer *pb.SimpleResponse) error {
	return conn.Invoke(l.ctx, l.asked.Method, l.message, answer)
}

func (l *load) note(number int, own *worker, sent time.Time, measured bool, err error) {
	done := time.Now()
	if at := done.Sub(l.start); at >= 0 && int64(at) <= l.end.Load() {
		own.ended++
		if err == nil {
			own.okInWindow++
		}
	}
	if !measured {
		return
	}
	own.last = done
	if err == nil {
		own.ok++
		l.latencies[number].record(done.Sub(sent))
		return
	}
	if l.cut.Load() {
		own.classes[inFlightAtEnd]++
		return
	}
	name, known := names[status.Code(err)]
	if !known {
		name = "UNKNOWN"
	}
	own.classes[name]++
	l.failures[number].record(done.Sub(sent))
	if own.cause == "" {
		own.cause = fmt.Sprintf("%s: %s", name, status.Convert(err).Message())
	}
}

func (l *load) tell(made *report) {
	made.Status = map[string]int64{}
	made.Causes = []string{}
	last := l.start
	seen := map[string]bool{}
	for i := range l.workers {
		own := &l.workers[i]
		made.Status["OK"] += own.ok
		for name, count := range own.classes {
			made.Status[name] += count
		}
		made.OKInWindow += own.okInWindow
		made.AllInWindow += own.ended
		if own.last.After(last) {
			last = own.last
		}
		if own.cause != "" && !seen[own.cause] && len(made.Causes) < 16 {
			seen[own.cause] = true
			made.Causes = append(made.Causes, own.cause)
		}
	}
	made.WindowSeconds = last.Sub(l.start).Seconds()
	if l.stop.Load() {
		made.WindowSeconds = time.Duration(l.end.Load()).Seconds()
	}
	made.Latency, made.ErrorLatency = joined(l.latencies), joined(l.failures)
	made.Versions = fmt.Sprintf("grpc-go %s, go %s", grpc.Version, strings.TrimPrefix(runtime.Version(), "go"))
}
