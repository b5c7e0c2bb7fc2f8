package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// ready is the ready file: where the gateway answers, once it does.
type ready struct {
	Flight []string `json:"flight"`
	HTTP   *string  `json:"http"` // null when off
	PID    int      `json:"pid"`
}

// writeReady puts the whole file there in one step: who waits for it never
// reads half of it.
func writeReady(name string, r ready) (err error) {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(append(text, '\n'))
	// CreateTemp makes it private; an orchestrator under another user reads it.
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// prepareReady takes an old file away and finds out now whether the new one can
// be written: later there are loaded functions to throw away.
func prepareReady(name string) error {
	if name == "" {
		return nil
	}
	if err := removeReady(name); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// removeReady is no error if the file is not there, but one if something else
// than a file is: a folder, even an empty one, was never a ready file.
func removeReady(name string) error {
	if name == "" {
		return nil
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return errors.New("wanted a file, got a folder")
	} else if err == nil && !info.Mode().IsRegular() {
		return errors.New("wanted a file, got a device, pipe or socket")
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
