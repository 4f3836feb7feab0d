package pay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// journal is a file with one JSON record a line, written before the answer is given,
// so that a sandbox that was killed finds what it has charged.
type journal struct {
	file   *os.File
	broken error // of a write; what may follow half a line would be lost
}

// record is one line: a charge with what was asked for, or a refund.
type record struct {
	Charge *Charge        `json:"charge,omitempty"`
	Asked  *ChargeRequest `json:"asked,omitempty"`
	Refund *Refund        `json:"refund,omitempty"`
}

// OpenSandbox makes a sandbox that keeps its charges and refunds in a file, and begins
// with those that another one kept there. A line that was not written to its end was
// never answered, and is dropped. One process may have the file at a time. Counts of
// calls begin anew. The caller closes the file by Close.
func OpenSandbox(cfg SandboxConfig, path string) (*Sandbox, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the file that whoever starts the sandbox names
	if err != nil {
		return nil, fmt.Errorf("sandbox journal: %w", err)
	}
	s := NewSandbox(cfg)
	end, err := s.recall(file)
	if err == nil {
		err = file.Truncate(end)
	}
	if err == nil {
		_, err = file.Seek(end, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox journal %s: %w", path, err), file.Close())
	}
	s.journal = &journal{file: file}
	return s, nil
}

// Close closes the journal, if there is one; afterwards nothing is charged.
func (s *Sandbox) Close() error {
	if s.journal == nil {
		return nil
	}
	return s.journal.file.Close()
}

// recall takes in a journal, and gives where its last whole line ends.
func (s *Sandbox) recall(from io.Reader) (end int64, err error) {
	lines := bufio.NewReader(from)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return end, nil // with what is left of a line that was cut off
		}
		if err != nil {
			return 0, err
		}
		var r record
		if err := json.Unmarshal(bytes.TrimSpace(line), &r); err != nil {
			return 0, fmt.Errorf("line %d: %w", n, err)
		}
		switch {
		case r.Charge != nil && r.Asked != nil && s.charges[r.Charge.Key] == nil:
			s.count(*r.Charge, *r.Asked)
		case r.Refund != nil && s.charges[r.Refund.ChargeKey] != nil && s.refunds[r.Refund.Key] == nil:
			s.giveBack(r.Refund)
		default:
			return 0, fmt.Errorf("line %d: neither a charge nor a refund of one", n)
		}
		end += int64(len(line))
	}
}

// write keeps a record; without a journal there is nothing to do. A record that was
// not kept is as a sandbox that is down.
func (j *journal) write(r record) error {
	if j == nil {
		return nil
	}
	line, err := json.Marshal(r)
	if err == nil && j.broken == nil {
		_, j.broken = j.file.Write(append(line, '\n'))
	}
	if err = errors.Join(err, j.broken); err != nil {
		return fmt.Errorf("journal: %w: %w", ErrDown, err)
	}
	return nil
}

// count puts a charge into the books.
func (s *Sandbox) count(c Charge, asked ChargeRequest) {
	if c.Status == ChargeCaptured {
		s.books.Captured++
		s.books.CapturedCents += c.AmountCents
	} else {
		s.books.Declined++
	}
	s.charges[c.Key] = &entry{charge: c, asked: asked}
}

// giveBack puts a refund into the books.
func (s *Sandbox) giveBack(r *Refund) {
	s.charges[r.ChargeKey].charge.RefundedCents += r.AmountCents
	s.books.Refunded++
	s.books.RefundedCents += r.AmountCents
	s.refunds[r.Key] = r
}
