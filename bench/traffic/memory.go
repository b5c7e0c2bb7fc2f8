package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// samplesWanted are spread evenly over the traffic.
	samplesWanted = 400
	lookEvery     = time.Millisecond
	// warmShare of the traffic is not judged: arenas and heap find their size in it.
	warmShare = 0.2
	// goalFlat is how far the medians of the tenths of the traffic may lie from
	// the median of all of it.
	goalFlat = 0.05
	// goalTotal is the least traffic, in gigabytes, that the goal is judged by.
	goalTotal = 10
	parts     = 10
	mib       = 1 << 20
)

// sample is the gateway's memory after some traffic.
type sample struct{ gigabytes, rss, pss, private float64 } // MiB

func measureMemory(ctx context.Context, s *settings) (err error) {
	p, err := s.gateway.Start(ctx)
	gateway, err := connect(ctx, p, err)
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, gateway.Close()) }()
	var passed atomic.Int64
	loaded := make(chan error, 1)
	go func() {
		loaded <- gateway.load(ctx, batchOf(sizes[0]), s.callers, s.total*gigabyte, func(n int64) { passed.Add(n) })
	}()
	var all []sample
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case err := <-loaded:
			if err == nil {
				err = printMemory(s, all)
			}
			return err
		case <-look.C:
		}
		at := float64(passed.Load()) / gigabyte
		if at < s.total*float64(len(all))/samplesWanted {
			continue
		}
		m, err := gateway.Memory()
		if err != nil {
			return errors.Join(err, gateway.Client.Close(), <-loaded)
		}
		all = append(all, sample{at, float64(m.RSS) / mib, float64(m.PSS) / mib, float64(m.Private) / mib})
	}
}

func printMemory(s *settings, all []sample) error {
	warm := warmShare * s.total
	judged := slices.DeleteFunc(slices.Clone(all), func(x sample) bool { return x.gigabytes < warm })
	if len(judged) < 2 {
		return fmt.Errorf("memory: wanted at least 2 samples after %.2g GB, got %d", warm, len(judged))
	}
	fmt.Printf("\nMemory of the gateway process over %g GB, batches of %d KiB, %d calls in flight: %d samples after the first %.2g GB, MiB\n\n",
		s.total, sizes[0]>>10, s.callers, len(judged), warm)
	fmt.Println("| | least | median | most | slope per GB | medians of tenths of the traffic | furthest from the median | goal | result |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for _, kind := range []struct {
		name string
		of   func(sample) float64
	}{
		{"RSS (with the pages of the arenas that it has touched)", func(x sample) float64 { return x.rss }},
		{"PSS", func(x sample) float64 { return x.pss }},
		{"of it anonymous: heap and stacks", func(x sample) float64 { return x.private }},
	} {
		printFlat(kind.name, judged, warm, s.total, kind.of)
	}
	return nil
}

func printFlat(name string, judged []sample, from, to float64, of func(sample) float64) {
	values := make([]float64, len(judged))
	tenths := make([][]float64, parts)
	for i, x := range judged {
		values[i] = of(x)
		part := min(int((x.gigabytes-from)/(to-from)*parts), parts-1)
		tenths[part] = append(tenths[part], of(x))
	}
	middle, furthest, listed := median(values), 0.0, ""
	for _, t := range tenths {
		if len(t) > 0 {
			furthest = max(furthest, math.Abs(median(t)/middle-1))
			listed += fmt.Sprintf("%.1f ", median(t))
		}
	}
	result := "pass"
	switch {
	case to < goalTotal:
		result = fmt.Sprintf("– (wants %d GB)", goalTotal)
	case furthest > goalFlat:
		result = "**miss**"
	}
	fmt.Printf("| %s | %.1f | %.1f | %.1f | %+.2f (%+.2f %%) | %s| %.1f %% | ≤ %g %% | %s |\n", name, slices.Min(values), middle, slices.Max(values),
		slope(judged, of), 100*slope(judged, of)/middle, listed, 100*furthest, 100*goalFlat, result)
}

// slope is that of the least-squares line over the gigabytes.
func slope(all []sample, of func(sample) float64) float64 {
	var x, y float64
	for _, s := range all {
		x += s.gigabytes / float64(len(all))
		y += of(s) / float64(len(all))
	}
	var xy, xx float64
	for _, s := range all {
		xy += (s.gigabytes - x) * (of(s) - y)
		xx += (s.gigabytes - x) * (s.gigabytes - x)
	}
	return xy / xx
}
