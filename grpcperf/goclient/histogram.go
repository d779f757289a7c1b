package main

// Latencies in the layout of csrc/base/histogram.h, in pages that are made when they are first needed: a
// thousand workers have one each.

import (
	"math"
	"math/bits"
	"time"
)

const (
	halfBits  = 10
	slots     = 33 << halfBits
	pageBits  = 7
	longestNS = 3_600_000_000_000
)

type page [1 << pageBits]uint32

type histogram struct {
	pages    [slots >> pageBits]*page
	count    uint64
	overflow uint64
	sum      uint64
	min, max uint64
}

func slotOf(ns uint64) uint64 {
	shift := max(0, bits.Len64(ns)-halfBits-1)
	return uint64(shift)<<halfBits + ns>>shift
}

func (h *histogram) record(latency time.Duration) {
	ns := uint64(max(latency, 0))
	if h.count == 0 {
		h.min = math.MaxUint64
	}
	h.count++
	h.sum += ns
	h.min, h.max = min(h.min, ns), max(h.max, ns)
	if ns > longestNS {
		h.overflow++
		return
	}
	slot := slotOf(ns)
	if h.pages[slot>>pageBits] == nil {
		h.pages[slot>>pageBits] = new(page)
	}
	h.pages[slot>>pageBits][slot%(1<<pageBits)]++
}

type distribution struct {
	Slots    [][2]uint64 `json:"slots"`
	Overflow uint64      `json:"overflow"`
	Sum      uint64      `json:"sum_ns"`
	Min      uint64      `json:"min_ns"`
	Max      uint64      `json:"max_ns"`
}

// joined adds up those of all workers.
func joined(each []histogram) distribution {
	var counts [slots]uint64
	all := distribution{Slots: [][2]uint64{}, Min: math.MaxUint64}
	for i := range each {
		h := &each[i]
		if h.count == 0 {
			continue
		}
		all.Overflow += h.overflow
		all.Sum += h.sum
		all.Min, all.Max = min(all.Min, h.min), max(all.Max, h.max)
		for number, page := range h.pages {
			if page == nil {
				continue
			}
			for at, count := range page {
				counts[number<<pageBits+at] += uint64(count)
			}
		}
	}
	if all.Min == math.MaxUint64 {
		all.Min = 0
	}
	for slot, count := range counts {
		if count > 0 {
			all.Slots = append(all.Slots, [2]uint64{uint64(slot), count})
		}
	}
	return all
}
