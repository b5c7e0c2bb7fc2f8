package client

import (
	"fmt"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
)

// Exchange sends batches and ranges over their answers, both at once, so that
// neither side waits for the other: a pipeline over any number of batches in
// the memory of a few. array.IterFromReader makes batches of any Arrow reader.
//
//	for result, err := range stream.Exchange(array.IterFromReader(reader)) {
//
// The batches are taken in a goroutine of Exchange's own, which has ended when
// the loop has, also by break or panic; a source that blocks holds that up. An
// error of the source ends the call and is what the loop gets. An error is the
// last thing that is yielded. Leaving the loop early gives the call up.
func (s *Stream) Exchange(batches iter.Seq2[arrow.RecordBatch, error]) iter.Seq2[*Result, error] {
	return exchange(s, batches, s.Results())
}

func exchange[T any](s *Stream, batches iter.Seq2[arrow.RecordBatch, error], answers iter.Seq2[*T, error]) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		all, done := false, make(chan struct{})
		go func() {
			defer close(done)
			all = s.sendAll(batches)
		}()
		defer func() {
			s.Close()
			<-done
		}()
		for answer, err := range answers {
			if cause := s.inputError(); err != nil && cause != nil {
				err = cause // the rest is its effect
			}
			if !yield(answer, err) || err != nil {
				return
			}
		}
		<-done
		if err := s.inputError(); err != nil {
			yield(nil, err)
		} else if !all {
			yield(nil, fmt.Errorf("%s: the call ended before all batches were sent", s.name))
		}
	}
}

// sendAll sends every batch and half-closes; false if the call ended before.
func (s *Stream) sendAll(batches iter.Seq2[arrow.RecordBatch, error]) bool {
	for batch, err := range batches {
		if err == nil {
			err = s.Send(batch)
			if isEOF(err) {
				return false // the receiver learns why
			}
		}
		if err != nil {
			s.abandon(err)
			return false
		}
	}
	if err := s.CloseSend(); err != nil {
		s.abandon(err)
		return false
	}
	return true
}

// abandon ends the call because of its input.
func (s *Stream) abandon(err error) {
	s.mu.Lock()
	s.inputErr = err
	s.mu.Unlock()
	s.Close()
}

func (s *Stream) inputError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inputErr
}
