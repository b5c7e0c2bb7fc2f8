// Package layering holds the test that keeps the rooms apart: who may import
// whom, and which capability lives where. It has no code of its own.
package layering
