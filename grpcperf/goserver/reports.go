package main

// What the server says of itself, over an HTTP port of its own: nothing but calls goes over the port that is
// measured. The goroutines it takes to answer are the same few at each reading, so they cancel out.

import (
	"encoding/json"
	"expvar"
	"fmt"
	"net"
	"net/http"
	httppprof "net/http/pprof"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"strconv"
	"time"
)

const maxProfile = 10 * time.Minute

type reports struct {
	service *service
}

// serveReports listens on a port of its choice and answers there for good.
func serveReports(s *service) (net.Addr, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r, mux := reports{s}, http.NewServeMux()
	expvar.Publish("grpcperf", expvar.Func(func() any { return s.counters.read() }))
	expvar.Publish("goroutines", expvar.Func(func() any { return runtime.NumGoroutine() }))
	expvar.Publish("runtime", expvar.Func(runtimeMetrics))
	mux.Handle("/debug/vars", expvar.Handler())
	mux.HandleFunc("/debug/pprof/", httppprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", httppprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", httppprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", httppprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", httppprof.Trace)
	mux.HandleFunc("/memstats", r.memstats)
	mux.HandleFunc("/counters", r.counters)
	mux.HandleFunc("/release", r.release)
	mux.HandleFunc("/reset_peaks", r.resetPeaks)
	mux.HandleFunc("/cpu_profile", r.cpuProfile)
	server := &http.Server{Handler: mux}
	server.SetKeepAlivesEnabled(false) // a reader that stays would be counted
	go server.Serve(listener)
	return listener.Addr(), nil
}

// memstats are runtime.MemStats by its own names, and what goes with them, read at one moment. Two collections
// go before when they are to settle: what finalizers and pools let go in the first falls to the second.
func (r reports) memstats(out http.ResponseWriter, in *http.Request) {
	if in.FormValue("settle") == "1" {
		runtime.GC()
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	counts := r.service.counters.read()
	reply(out, map[string]any{
		"HeapAlloc": m.HeapAlloc, "HeapSys": m.HeapSys, "HeapIdle": m.HeapIdle, "HeapObjects": m.HeapObjects,
		"StackInuse": m.StackInuse, "StackSys": m.StackSys, "Sys": m.Sys,
		"TotalAlloc": m.TotalAlloc, "Mallocs": m.Mallocs, "Frees": m.Frees,
		"NumGC": m.NumGC, "PauseTotalNs": m.PauseTotalNs, "GCCPUFraction": m.GCCPUFraction,
		"goroutines": runtime.NumGoroutine(),
		"counters":   counts,
	})
}

func (r reports) counters(out http.ResponseWriter, _ *http.Request) {
	reply(out, r.service.counters.read())
}

func (r reports) release(out http.ResponseWriter, _ *http.Request) {
	r.service.parking.release()
	reply(out, struct{}{})
}

func (r reports) resetPeaks(out http.ResponseWriter, _ *http.Request) {
	r.service.counters.resetPeaks()
	reply(out, struct{}{})
}

// cpuProfile is /debug/pprof/profile for fractions of a second, too.
func (r reports) cpuProfile(out http.ResponseWriter, in *http.Request) {
	seconds, err := strconv.ParseFloat(in.FormValue("seconds"), 64)
	length := time.Duration(seconds * float64(time.Second))
	if err != nil || length <= 0 || length > maxProfile {
		http.Error(out, fmt.Sprintf("seconds=%s is not a time up to %v", in.FormValue("seconds"), maxProfile), http.StatusBadRequest)
		return
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		http.Error(out, err.Error(), http.StatusConflict)
		return
	}
	select {
	case <-time.After(length):
	case <-in.Context().Done():
	}
	pprof.StopCPUProfile()
}

// runtimeMetrics are those of package runtime/metrics that are one number.
func runtimeMetrics() any {
	known := metrics.All()
	samples := make([]metrics.Sample, len(known))
	for i, description := range known {
		samples[i].Name = description.Name
	}
	metrics.Read(samples)
	values := map[string]any{}
	for _, sample := range samples {
		switch sample.Value.Kind() {
		case metrics.KindUint64:
			values[sample.Name] = sample.Value.Uint64()
		case metrics.KindFloat64:
			values[sample.Name] = sample.Value.Float64()
		}
	}
	return values
}

func reply(out http.ResponseWriter, what any) {
	out.Header().Set("Content-Type", "application/json")
	json.NewEncoder(out).Encode(what)
}
