// Command echo is a Flight server as one writes it with arrow-go: its ordinary
// record reader and writer, and a body that hands the first column back. It is
// what the gateway's own handling of bytes is measured against.
//
// It writes the address that it listens on to --ready-file, as the gateway does,
// and ends with SIGINT.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"google.golang.org/grpc"
)

// What the gateway gives its transport too; arrow-go and grpc leave the rest.
const (
	messageBytesMax = 256 << 20
	bufferBytes     = 128 << 10
)

func main() {
	ready := flag.String("ready-file", "", "file to write the address to")
	flag.Parse()
	if err := run(*ready); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

func run(ready string) error {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.MaxRecvMsgSize(messageBytesMax), grpc.ReadBufferSize(bufferBytes), grpc.WriteBufferSize(bufferBytes))
	flight.RegisterFlightServiceServer(s, &server{})
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	go func() {
		<-interrupts
		s.Stop()
	}()
	text, err := json.Marshal(map[string][]string{"flight": {lis.Addr().String()}})
	if err != nil {
		return err
	}
	// In one piece: whoever waits for the file reads it as soon as it is there.
	if err := os.WriteFile(ready+".new", text, 0o600); err != nil {
		return err
	}
	if err := os.Rename(ready+".new", ready); err != nil {
		return err
	}
	return s.Serve(lis)
}

type server struct{ flight.BaseFlightServer }

// DoAction answers the one question that the Go client asks first.
func (*server) DoAction(_ *flight.Action, s flight.FlightService_DoActionServer) error {
	return s.Send(&flight.Result{Body: []byte{2}})
}

func (*server) DoExchange(s flight.FlightService_DoExchangeServer) error {
	r, err := flight.NewRecordReader(s)
	if err != nil {
		return err
	}
	defer r.Release()
	schema := arrow.NewSchema([]arrow.Field{r.Schema().Field(0)}, nil)
	w := flight.NewRecordWriter(s, ipc.WithSchema(schema))
	defer w.Close()
	for r.Next() {
		in := r.RecordBatch()
		out := array.NewRecordBatch(schema, in.Columns()[:1], in.NumRows())
		err := w.Write(out)
		out.Release()
		if err != nil {
			return err
		}
	}
	return r.Err()
}
