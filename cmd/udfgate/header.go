package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	client "github.com/udfgate/udfgate/clients/go"
)

// headersOf are the values of --header. Flags of their own say what udfgate-…
// headers do, and grpc has the rest of what is refused to itself.
func headersOf(texts []string) ([]client.Option, error) {
	options := make([]client.Option, 0, len(texts))
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--header: wanted KEY=VALUE, got %q", text)
		}
		key = strings.ToLower(key)
		if err := checkHeader(key, value); err != nil {
			return nil, fmt.Errorf("--header %s: %w", key, err)
		}
		options = append(options, client.WithMetadata(key, value))
	}
	return options, nil
}

// hiddenHeaders are those that the gateway does not show to functions, and
// what gRPC and its HTTP need for themselves.
var hiddenHeaders = []string{
	"authorization", "proxy-authorization", "cookie", "te", "content-type", "user-agent", "host", "connection",
	"proxy-connection", "keep-alive", "transfer-encoding", "upgrade", "trailer",
}

func checkHeader(key, value string) error {
	wrong := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
	}
	switch {
	case strings.HasPrefix(key, "udfgate-"):
		return errors.New("udfgate-… is what callers ask of the gateway; use the flags of call")
	case strings.HasPrefix(key, "grpc-"), slices.Contains(hiddenHeaders, key):
		return errors.New("it belongs to the transport or to who calls, and no function gets to see it")
	case strings.ContainsFunc(key, wrong):
		return errors.New("wanted a key of letters, digits and the signs - . _")
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) && !strings.HasSuffix(key, "-bin"):
		return errors.New("wanted a value of printable ASCII; a key that ends in -bin takes any bytes")
	}
	return nil
}
