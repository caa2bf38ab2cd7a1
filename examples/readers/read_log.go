// Read and follow a log of binlog, with Go's standard library alone: copy this file into your program.
//
//	go run read_log.go [-f] DIR [FILE:OFFSET]
//
// It prints a line for each record: its ref, the ref after it, and the record in base64.  To resume later, pass the
// last ref of the second column; pass only refs that a reader has printed.  With -f it follows the log, and reads the
// header again every 100 ms.  (binlog.Reader, in Python, does not poll: writers wake it.)  It does not read archives
// (00000001.dat.zst), and ends with an error if it finds one.  docs/format.md describes the bytes.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

const recordBytesMax = 64 << 20

var fileName = regexp.MustCompile(`^([0-9]{8})\.dat(\.zst)?$`)
var word = binary.BigEndian

type header struct {
	closed              bool
	first, tail         uint64 // offsets of the first record, and of the next one
	sequence, sequences uint64 // of the first record, and of the next one; 0 if another program made the file
}

// readHeader returns the header of a file.  Writers may be writing it, so two consecutive reads must agree.
func readHeader(file *os.File, number uint64) (found header, err error) {
	data, before := make([]byte, 256), []byte(nil)
	for !bytes.Equal(data, before) {
		before = bytes.Clone(data)
		if count, err := file.ReadAt(data, 0); count < 248 {
			return found, fmt.Errorf("%s: the header is incomplete: %v", file.Name(), err)
		}
	}
	crc := func(parts ...[]byte) uint32 {
		return crc32.Checksum(bytes.Join(parts, nil), crc32.MakeTable(crc32.Castagnoli))
	}
	found = header{closed: word.Uint16(data[6:]) == 1, first: 256, tail: word.Uint64(data[8:])}
	switch {
	case word.Uint32(data) != 252 || word.Uint16(data[4:]) != 1:
		err = fmt.Errorf("%s: not a log file of version 1", file.Name())
	case uint64(word.Uint32(data[16:])) != number:
		err = fmt.Errorf("%s: its header has another number", file.Name())
	case bytes.Equal(data[24:248], make([]byte, 224)): // another program made the file
		found.first = 248
	case string(data[24:32]) != "BINLOG\x00\x01":
		err = fmt.Errorf("%s: this reader does not know the layout of the header", file.Name())
	case word.Uint32(data[132:]) != crc(data[0:6], data[16:20], data[24:64]), // the identity
		word.Uint32(data[124:]) != crc(data[32:48], data[16:20], data[64:124]), // the live block
		found.tail < word.Uint64(data[64:]):
		err = fmt.Errorf("%s: the header is damaged; run binlog check", file.Name())
	default:
		found.sequence = word.Uint64(data[48:])
		found.sequences = found.sequence + word.Uint64(data[72:])
	}
	return found, err
}

// open opens a file of the log, or the oldest one if number is 0.  It returns nil if the file does not exist yet.
func open(dir string, number uint64) (*os.File, uint64, error) {
	entries, err := os.ReadDir(dir) // sorted, so a file comes before its archive
	for _, entry := range entries {
		match := fileName.FindStringSubmatch(entry.Name())
		if match == nil {
			continue
		}
		found, _ := strconv.ParseUint(match[1], 10, 64)
		if found < number {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		if number != 0 && found > number {
			return nil, 0, fmt.Errorf("%s: the file before it is missing; retention may have removed it", path)
		}
		if match[2] != "" {
			return nil, 0, fmt.Errorf("%s: this reader reads no archives; zstd -d restores the file", path)
		}
		file, err := os.Open(path)
		return file, found, err
	}
	return nil, number, err
}

// ReadLog calls handle with each record, its ref, and the ref after it, from number:offset on.  If number is 0, it
// begins with the oldest record.  If follow is true, it returns only after an error.
func ReadLog(dir string, number, offset uint64, follow bool, handle func(ref, next string, record []byte)) error {
	var sequences uint64 // of the file before this one
	for {
		file, opened, err := open(dir, number)
		if err == nil && file != nil {
			var closed bool
			closed, sequences, err = readFile(file, opened, offset, sequences, follow, handle)
			file.Close()
			if err == nil && closed {
				number, offset = opened+1, 0
				continue
			}
		}
		if err != nil || !follow {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// readFile reads a file to its tail, and follows it until it is closed.  It returns whether the file is closed.
func readFile(file *os.File, number, offset, sequences uint64, follow bool,
	handle func(ref, next string, record []byte)) (bool, uint64, error) {
	for {
		head, err := readHeader(file, number)
		if err == nil && sequences != 0 && head.sequence > sequences {
			err = fmt.Errorf("%s: records are missing before this file", file.Name())
		}
		offset = max(offset, head.first)
		if err == nil && offset > head.tail {
			err = fmt.Errorf("%s: the file ends before %d", file.Name(), offset)
		}
		if err != nil || offset == head.tail && (head.closed || !follow) {
			return head.closed, head.sequences, err
		}
		if offset == head.tail {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		stream := bufio.NewReaderSize(io.NewSectionReader(file, int64(offset), int64(head.tail-offset)), 1<<20)
		for offset < head.tail {
			length := make([]byte, 4)
			_, err := io.ReadFull(stream, length)
			next := offset + 4 + uint64(word.Uint32(length))
			if err != nil || next > head.tail || next-offset > recordBytesMax+4 {
				return false, 0, fmt.Errorf("%s: damaged at %d, or a record of more than 64 MiB", file.Name(), offset)
			}
			record := make([]byte, next-offset-4)
			if _, err := io.ReadFull(stream, record); err != nil {
				return false, 0, fmt.Errorf("%s: damaged at %d: %w", file.Name(), offset, err)
			}
			handle(fmt.Sprintf("%d:%d", number, offset), fmt.Sprintf("%d:%d", number, next), record)
			offset = next
		}
	}
}

func main() {
	arguments, follow := os.Args[1:], false
	if len(arguments) > 0 && arguments[0] == "-f" {
		arguments, follow = arguments[1:], true
	}
	var number, offset uint64
	if len(arguments) == 2 {
		if _, err := fmt.Sscanf(arguments[1], "%d:%d", &number, &offset); err != nil {
			arguments = nil
		}
	}
	if len(arguments) < 1 || len(arguments) > 2 {
		fmt.Fprintln(os.Stderr, "usage: read_log [-f] DIR [FILE:OFFSET]")
		os.Exit(2)
	}
	err := ReadLog(arguments[0], number, offset, follow, func(ref, next string, record []byte) {
		fmt.Println(ref, next, base64.StdEncoding.EncodeToString(record))
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
