// Checks notes and proofs with Go's own sumdb packages, and makes some for our verifier.
//
// check: reads a JSON object from standard input and prints one line of "yes" or "no" for each note and proof in it.
// make: prints a JSON object with a key, a signed checkpoint and proofs over 70 leaves.
package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type inclusion struct {
	Size, Index int64
	Root, Leaf  string
	Proof       []string
}

type consistency struct {
	Size, Old     int64
	Root, OldRoot string
	Proof         []string
}

type question struct {
	Key           string
	Notes         []string
	Inclusions    []inclusion
	Consistencies []consistency
}

func main() {
	if os.Args[1] == "make" {
		produce()
		return
	}
	var asked question
	must(json.NewDecoder(os.Stdin).Decode(&asked))
	verifier, err := note.NewVerifier(asked.Key)
	must(err)
	for _, text := range asked.Notes {
		_, err := note.Open([]byte(text), note.VerifierList(verifier))
		answer(err)
	}
	for _, each := range asked.Inclusions {
		answer(tlog.CheckRecord(each.proof(), each.Size, hash(each.Root), each.Index, hash(each.Leaf)))
	}
	for _, each := range asked.Consistencies {
		answer(tlog.CheckTree(each.proof(), each.Size, hash(each.Root), each.Old, hash(each.OldRoot)))
	}
}

func (each inclusion) proof() tlog.RecordProof { return hashes(each.Proof) }
func (each consistency) proof() tlog.TreeProof { return hashes(each.Proof) }

func hashes(texts []string) []tlog.Hash {
	found := make([]tlog.Hash, 0, len(texts))
	for _, text := range texts {
		found = append(found, hash(text))
	}
	return found
}

func hash(text string) tlog.Hash {
	data, err := base64.StdEncoding.DecodeString(text)
	must(err)
	var found tlog.Hash
	copy(found[:], data)
	return found
}

func answer(err error) {
	if err == nil {
		fmt.Println("yes")
	} else {
		fmt.Println("no")
	}
}

const leaves = 70

func produce() {
	secret, public, err := note.GenerateKey(rand.Reader, "example.org/made-by-go")
	must(err)
	signer, err := note.NewSigner(secret)
	must(err)
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		var found []tlog.Hash
		for _, index := range indexes {
			found = append(found, stored[index])
		}
		return found, nil
	})
	for number := int64(0); number < leaves; number++ {
		added, err := tlog.StoredHashes(number, []byte(fmt.Sprintf("record %d", number)), reader)
		must(err)
		stored = append(stored, added...)
	}
	root, err := tlog.TreeHash(leaves, reader)
	must(err)
	text := fmt.Sprintf("example.org/made-by-go\n%d\n%s\n", leaves, root)
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	must(err)
	made := map[string]any{"key": public, "note": string(signed)}
	var inclusions, consistencies [][]string
	for index := int64(0); index < leaves; index++ {
		proof, err := tlog.ProveRecord(leaves, index, reader)
		must(err)
		inclusions = append(inclusions, texts(proof))
	}
	for old := int64(1); old <= leaves; old++ {
		proof, err := tlog.ProveTree(leaves, old, reader)
		must(err)
		before, err := tlog.TreeHash(old, reader)
		must(err)
		consistencies = append(consistencies, append([]string{before.String()}, texts(proof)...))
	}
	made["inclusions"], made["consistencies"] = inclusions, consistencies
	encoded, err := json.MarshalIndent(made, "", " ")
	must(err)
	fmt.Println(strings.TrimSpace(string(encoded)))
}

func texts(hashes []tlog.Hash) []string {
	found := []string{}
	for _, each := range hashes {
		found = append(found, each.String())
	}
	return found
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
