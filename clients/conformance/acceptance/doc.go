// Package acceptance holds the long promises of the gateway as tests from
// outside: the built binary, real workers and the Go client. Bills add up over
// a hundred thousand calls; a thousand killed workers lose no row.
package acceptance
