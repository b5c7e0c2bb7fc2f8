// Package deploy holds the container images and what a cluster is told, and the
// tests that keep them true without a container daemon. It has no code of its own.
package deploy
