// Package doccheck holds the tests that keep docs/ complete: what the code
// names for users must be explained there, and links must lead somewhere. It
// reads sources as text, imports no room, and has no code of its own.
package doccheck
