package main

// What one call is asked to do beside answering: read from its metadata ("grpcperf-" names) over defaults that
// were set for the whole server.

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

const (
	prefix        = "grpcperf-"
	maxWaitMicros = 86_400_000_000 // a day
	maxAllocBytes = 1 << 40
	maxStatus     = 16
)

const (
	holdNot = iota
	holdAtOnce
	holdAfterFirst // streams that the client sends on take and answer one message before
)

var mosts = map[string]uint64{
	"hold": holdAfterFirst, "delay-us": maxWaitMicros, "busy-us": maxWaitMicros, "alloc-bytes": maxAllocBytes,
	"observe-cancel": 1, "message-delay-us": maxWaitMicros, "status": maxStatus,
}

type behaviour struct {
	hold          uint64        // park until released or cancelled; see below
	observeCancel bool          // a cancelled call ends at once instead of when its time is over
	status        codes.Code    // answer this status and no message; OK: answer as usual
	delay         time.Duration // wait without using CPU
	busy          time.Duration // use this much CPU
	allocBytes    int64         // allocate and touch for the call's life
	messageDelay  time.Duration // StreamingCall: wait before each answer
}

// set one, by its name with or without the prefix.
func (b *behaviour) set(key, value string) error {
	name := strings.TrimPrefix(key, prefix)
	most, known := mosts[name]
	if !known {
		return fmt.Errorf("no behaviour is called %s%.60s", prefix, name)
	}
	number, err := strconv.ParseUint(value, 10, 64)
	if err != nil || number > most {
		return fmt.Errorf("%s%s: '%.40s' is not a whole number from 0 to %d", prefix, name, value, most)
	}
	switch name {
	case "hold":
		b.hold = number
	case "delay-us":
		b.delay = time.Duration(number) * time.Microsecond
	case "busy-us":
		b.busy = time.Duration(number) * time.Microsecond
	case "alloc-bytes":
		b.allocBytes = int64(number)
	case "observe-cancel":
		b.observeCancel = number == 1
	case "message-delay-us":
		b.messageDelay = time.Duration(number) * time.Microsecond
	case "status":
		b.status = codes.Code(number)
	}
	return nil
}

// askedIn is b, changed by what the metadata of a call says, and whether it says anything.
func (b behaviour) askedIn(header metadata.MD) (changed behaviour, found bool, err error) {
	for key, values := range header {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		found = true
		for _, value := range values {
			if err := b.set(key, value); err != nil {
				return b, true, err
			}
		}
	}
	return b, found, nil
}
