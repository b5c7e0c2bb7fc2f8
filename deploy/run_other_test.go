//go:build !linux

package deploy

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func runStatic(t *testing.T, _ v1.Config, _ string) {
	t.Helper()
	t.Log("not run: the image holds a program for linux")
}
