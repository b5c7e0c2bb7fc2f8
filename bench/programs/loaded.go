package programs

import (
	"context"

	client "github.com/udfgate/udfgate/clients/go"
)

// Loaded is a started program with the client that loads it.
type Loaded struct {
	*Program
	Client *client.Client
}

// Connect adopts a program that was just started: it takes what Start and
// StartEcho return. The program ends if it cannot be reached.
func Connect(ctx context.Context, p *Program, err error) (*Loaded, error) {
	if err != nil {
		return nil, err
	}
	c, err := client.Connect(ctx, p.Addr)
	if err != nil {
		p.Stop()
		return nil, err
	}
	return &Loaded{p, c}, nil
}

// Close ends client and program.
func (l *Loaded) Close() error {
	err := l.Client.Close()
	l.Stop()
	return err
}
