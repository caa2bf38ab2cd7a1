// Serves a witness of the Transparency.dev project over HTTP, for the log whose verifier key is the argument.
//
// Prints the witness's verifier key, then its URL, and then a line for each checkpoint that it signs: size and root.
// It ends with its standard input.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	formats "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/witness/persistence/inmemory"
	"github.com/transparency-dev/witness/witness"
	"golang.org/x/mod/sumdb/note"
)

// printed is the witness's memory; it prints what is put into it.
type printed struct{ *inmemory.Persistence }

func (memory printed) Update(ctx context.Context, origin string, decide func([]byte) ([]byte, error)) error {
	return memory.Persistence.Update(ctx, origin, func(before []byte) ([]byte, error) {
		after, err := decide(before)
		if err == nil {
			lines := strings.Split(string(after), "\n")
			fmt.Println(lines[1], lines[2])
		}
		return after, err
	})
}

func main() {
	trusted, err := note.NewVerifier(os.Args[1])
	must(err)
	secret, public, err := note.GenerateKey(rand.Reader, "example.org/witness-in-go")
	must(err)
	signer, err := formats.NewSignerForCosignatureV1(secret)
	must(err)
	public, err = formats.VKeyToCosignatureV1(public)
	must(err)
	served, err := witness.New(context.Background(), witness.Opts{
		Persistence: printed{inmemory.New()},
		Signers:     []note.Signer{signer},
		VerifierForLog: func(_ context.Context, origin string) (note.Verifier, bool, error) {
			return trusted, origin == trusted.Name(), nil
		},
	})
	must(err)
	http.HandleFunc("POST /add-checkpoint", witness.NewHTTPHandler(served).AddCheckpoint)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	fmt.Println(public)
	fmt.Printf("http://%s\n", listener.Addr())
	go func() { must(http.Serve(listener, nil)) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	must(err)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
