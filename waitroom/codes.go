package waitroom

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A code brings its holder into a group. The store has only a keyed hash of it, so that
// whoever reads the store has no codes. How it is written does not matter: "abcd-2345"
// is "ABCD 2345".
const (
	shortestCode = 8
	longestCode  = 64
	mostCodes    = 100_000   // in one call of AddCodes
	codesBatch   = 1000      // in one script
	mostUses     = 1_000_000 // of one code
)

// CodesRequest adds codes of a group to an event.
type CodesRequest struct {
	Event EventID
	Group string
	// Codes are 8 to 64 letters and digits each; blanks and "-" in them do not count. At
	// most 100,000.
	Codes []string
	// Uses is how many may join by each: 1 (default), up to 1,000,000, or with 0 said by
	// Unlimited, any number. Whoever leaves and joins again uses it once more, but for a
	// code of one use, which stays its holder's.
	Uses      int
	Unlimited bool
	// By is the operator, for the audit trail.
	By string
}

// AddCodes adds codes, and says how many were new; one that the event has keeps its
// group and what was used of it. Errors: *InvalidError, ErrNoGroup, ErrNoEvent,
// ErrUnavailable (some may have been added; adding them again is harmless).
func (l *Line) AddCodes(ctx context.Context, req CodesRequest) (int, error) {
	uses, err := req.uses()
	if err != nil {
		return 0, err
	}
	hashes := make([]any, len(req.Codes))
	for i, code := range req.Codes {
		plain, ok := plainCode(code)
		if !ok {
			return 0, &InvalidError{Fields: []FieldError{{
				Field: fmt.Sprintf("codes[%d]", i), Detail: fmt.Sprintf("must be %d to %d letters and digits", shortestCode, longestCode),
			}}}
		}
		hashes[i] = l.codeHash(req.Event, plain)
	}
	ev, err := l.Event(ctx, req.Event)
	if err != nil {
		return 0, fmt.Errorf("codes: %w", err)
	}
	if !slices.ContainsFunc(ev.Groups, func(g GroupSettings) bool { return g.Name == req.Group && g.Codes }) {
		return 0, fmt.Errorf("codes of %s: group %s: %w", req.Event, req.Group, ErrNoGroup)
	}
	added := 0
	for batch := range slices.Chunk(hashes, codesBatch) {
		args := append([]any{req.By, req.Group, uses}, batch...)
		r, err := l.call(ctx, scriptCodes, req.Event, []string{l.keys.codes(req.Event)}, args...)
		if err != nil {
			return added, fmt.Errorf("codes of %s: %w", req.Event, err)
		}
		if r.outcome == outcomeNoGroup {
			return added, fmt.Errorf("codes of %s: group %s: %w", req.Event, req.Group, ErrNoGroup)
		}
		if err := r.want(1); err != nil {
			return added, fmt.Errorf("codes of %s: %w", req.Event, err)
		}
		n, err := numbers(r.rest[0])
		if err != nil {
			return added, fmt.Errorf("codes of %s: %w", req.Event, err)
		}
		added += int(n[0])
	}
	return added, nil
}

// uses is the number as the script takes it.
func (r CodesRequest) uses() (string, error) {
	switch {
	case len(r.Codes) == 0 || len(r.Codes) > mostCodes:
		return "", &InvalidError{Fields: []FieldError{{Field: "codes", Detail: fmt.Sprintf("must be 1 to %d codes", mostCodes)}}}
	case !groupNames.MatchString(r.Group):
		return "", &InvalidError{Fields: []FieldError{{Field: "group", Detail: "must be the name of a group with codes: true"}}}
	case r.Unlimited:
		return "*", nil
	case r.Uses < 0 || r.Uses > mostUses:
		return "", &InvalidError{Fields: []FieldError{{Field: "uses", Detail: fmt.Sprintf("must be 0 (any number) to %d", mostUses)}}}
	}
	return strconv.Itoa(max(1, r.Uses)), nil
}

// plainCode is a code without what does not count; false for what can be none.
func plainCode(code string) (string, bool) {
	if len(code) > 2*longestCode {
		return "", false
	}
	plain := strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(code))
	for _, r := range plain {
		if (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			return "", false
		}
	}
	return plain, len(plain) >= shortestCode && len(plain) <= longestCode
}

// codeHash is a code as the store knows it. What can be no code has the hash of none.
func (l *Line) codeHash(event EventID, code string) string {
	plain, _ := plainCode(code)
	m := hmac.New(sha256.New, l.cfg.SubjectKey)
	m.Write([]byte("code\x00" + string(event) + "\x00" + plain))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil)[:idBytes])
}
