package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/waitroom-dev/waitroom/admission/ledger"
)

// verifyFlags are where to find what is checked.
type verifyFlags struct {
	log, draw     bool
	commitment    string
	bundle        string
	target, event string
	heads, keys   []string
	save          string
}

// newVerifyCommand checks what the service has published.
func newVerifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use: "verify", Short: "Check an event's draw and its admission log from published data", Args: noArgs,
		Long: `Check an event's draw, where its order is drawn: that exactly those stand in the line
who were in the lobby when it closed, in the order that the seed picks, to which the
service was bound before anybody came. Give --commitment with the one that you saw
("draw" in GET /v1/events/ID) to be sure that it is still that one.

Check an event's admission log: that no leaf was changed, removed, added or moved
up to the signed head, that nobody came in twice, and that everybody came in in the
order of the line, but for those let in by hand, who are marked and counted.

Without --draw or --log, a file is checked as what it is, and an event for both.

With --target, the keys are the ones that the service itself publishes; give --keys
with a JWKS file that you kept to be sure that they are not new ones. Give --head
with a head that you saw earlier ("log" in GET /v1/events/ID) to be sure that the log
is still the one that you saw.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return verify(cmd, f) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.log, "log", false, "check the admission log")
	flags.BoolVar(&f.draw, "draw", false, "check the draw")
	flags.StringVar(&f.commitment, "commitment", "", "the draw's commitment that was kept, in `HEX`")
	flags.StringVar(&f.bundle, "bundle", "", "`FILE` with a log that --save wrote")
	flags.StringVar(&f.target, "target", "", "`URL` of a running service")
	flags.StringVar(&f.event, "event", "", "`ID` of the event at the target")
	flags.StringArrayVar(&f.heads, "head", nil, "JSON `FILE` of a head that was kept, or the JSON itself; may be given again")
	flags.StringArrayVar(&f.keys, "keys", nil, "JWKS `FILE` of the installation's public keys, instead of the published ones; may be given again")
	flags.StringVar(&f.save, "save", "", "`FILE` to write the bundle to")
	return cmd
}

func verify(cmd *cobra.Command, f verifyFlags) error {
	switch {
	case (f.bundle == "") == (f.target == ""):
		return usage(errors.New("verify: give --bundle FILE, or --target URL and --event ID"))
	case f.target != "" && f.event == "":
		return usage(errors.New("event: wants the id of the event at the target"))
	case f.log && f.draw && f.save != "":
		return usage(errors.New("save: a file holds a draw or a log; check one of them at a time"))
	}
	if !f.log && !f.draw {
		var err error
		if f.log, f.draw, err = f.whatIsThere(cmd.Context()); err != nil {
			return err
		}
	}
	var faults []error
	if f.draw {
		faults = append(faults, verifyDraw(cmd, f))
	}
	if f.log {
		faults = append(faults, verifyLog(cmd, f))
	}
	return errors.Join(faults...)
}

func verifyLog(cmd *cobra.Command, f verifyFlags) error {
	b, err := f.find(cmd.Context())
	if err != nil {
		return err
	}
	if f.save != "" {
		raw, err := json.Marshal(b)
		if err != nil {
			return err
		}
		if err := os.WriteFile(f.save, append(raw, '\n'), 0o600); err != nil {
			return err
		}
	}
	r := ledger.Check(b)
	if err := printReport(cmd.OutOrStdout(), b, r); err != nil {
		return err
	}
	if !r.OK() {
		return fmt.Errorf("the log of %s is not good: %d faults", b.Event, len(r.Faults)+r.More)
	}
	return nil
}

// find reads or fetches the log, and puts to it what the caller kept.
func (f verifyFlags) find(ctx context.Context) (ledger.Bundle, error) {
	var b ledger.Bundle
	var err error
	if f.bundle != "" {
		b, err = readBundle(f.bundle)
	} else {
		b, err = fetchLog(ctx, f.target, f.event)
	}
	if err != nil {
		return b, err
	}
	if len(f.keys) > 0 {
		b.Keys = nil
	}
	for _, path := range f.keys {
		raw, err := os.ReadFile(path) //nolint:gosec // the caller names the file
		if err != nil {
			return b, usage(fmt.Errorf("keys: %w", err))
		}
		keys, err := readJWKS(raw)
		if err != nil {
			return b, usage(fmt.Errorf("keys %s: %w", path, err))
		}
		b.Keys = append(b.Keys, keys...)
	}
	for _, head := range f.heads {
		raw := []byte(head)
		if !json.Valid(raw) {
			if raw, err = os.ReadFile(head); err != nil { //nolint:gosec // the caller names the file
				return b, usage(fmt.Errorf("head: %w", err))
			}
		}
		var h ledger.Head
		if err := json.Unmarshal(raw, &h); err != nil {
			return b, usage(fmt.Errorf("head: %w", err))
		}
		b.Kept = append(b.Kept, h)
	}
	return b, nil
}

func readBundle(path string) (b ledger.Bundle, err error) {
	file, err := os.Open(path) //nolint:gosec // the caller names the file
	if err != nil {
		return b, usage(fmt.Errorf("bundle: %w", err))
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if b, err = ledger.ReadBundle(file); err != nil {
		return b, usage(fmt.Errorf("bundle %s: %w", path, err))
	}
	return b, nil
}

func readJWKS(raw []byte) ([]ledger.Key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, err
	}
	return ledger.ReadKeys(set.Keys)
}

// logPages is a page of GET /v1/events/{event}/log, as far as it is needed here.
type logPages struct {
	Chain  string      `json:"chain"`
	First  int64       `json:"first"`
	Start  ledger.Hash `json:"start"`
	From   int64       `json:"from"`
	Next   int64       `json:"next"`
	Head   ledger.Head `json:"head"`
	Leaves []string    `json:"leaves"`
}

// fetchLog reads the whole log of an event up to the head of its last page.
func fetchLog(ctx context.Context, target, event string) (ledger.Bundle, error) {
	if err := checkOrigin("target", target); err != nil {
		return ledger.Bundle{}, usage(err)
	}
	client := verifyClient()
	raw, err := fetch(ctx, client, target+"/.well-known/jwks.json")
	if err != nil {
		return ledger.Bundle{}, err
	}
	b := ledger.Bundle{Format: ledger.Format, Event: event}
	if b.Keys, err = readJWKS(raw); err != nil {
		return b, fmt.Errorf("keys of %s: %w", target, err)
	}
	for begun := false; ; begun = true {
		next := b.First + int64(len(b.Leaves))
		raw, err := fetch(ctx, client, fmt.Sprintf("%s/v1/events/%s/log?limit=1000&from=%d", target, url.PathEscape(event), next))
		if err != nil {
			return b, err
		}
		var p logPages
		if err := json.Unmarshal(raw, &p); err != nil {
			return b, fmt.Errorf("log of %s: %w", event, err)
		}
		if !begun {
			b.Chain, b.First, b.Start, next = p.Chain, p.First, p.Start, p.From
		}
		if p.Chain != b.Chain || p.From != next || p.Next != next+int64(len(p.Leaves)) {
			return b, fmt.Errorf("log of %s: it became another one while it was read; try again", event)
		}
		b.Head = p.Head
		if len(p.Leaves) == 0 || p.Next >= p.Head.N {
			b.Leaves = append(b.Leaves, p.Leaves...)
			return b, nil
		}
		b.Leaves = append(b.Leaves, p.Leaves...)
	}
}

// fetch reads one published document.
func fetch(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, usage(err)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be reached: %w", address, err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 256<<20))
	if err != nil {
		return nil, fmt.Errorf("answer of %s: %w", address, err)
	}
	if res.StatusCode != http.StatusOK {
		var p problem
		if json.Unmarshal(raw, &p) == nil && p.Code != "" {
			return nil, p
		}
		return nil, fmt.Errorf("%s answered %s", address, res.Status)
	}
	return raw, nil
}

// printReport says what the check found.
func printReport(w io.Writer, b ledger.Bundle, r ledger.Report) error {
	const form = "2006-01-02 15:04:05"
	_, err := fmt.Fprintf(w, "log of %s: leaves %d to %d, %d people let in", b.Event, r.First+min(1, r.Leaves), r.First+r.Leaves, r.People)
	if r.People > 0 {
		fmt.Fprintf(w, ", %s to %s UTC", r.From.Format(form), r.Until.Format(form))
	}
	fmt.Fprintf(w, "\nby hand %d, passed through %d, on a place that was put back %d\n", r.ByHand, r.Through, r.Kept)
	for _, reason := range slices.Sorted(maps.Keys(r.Reasons)) {
		fmt.Fprintf(w, "  %-16s %d\n", reason, r.Reasons[reason])
	}
	if r.First > 0 {
		fmt.Fprintf(w, "the first %d leaves are no longer published; a bundle that was saved earlier has them\n", r.First)
	}
	for _, f := range r.Faults {
		if f.Leaf > 0 {
			fmt.Fprintf(w, "leaf %d: %s\n", f.Leaf, f.What)
		} else {
			fmt.Fprintln(w, f.What)
		}
	}
	if r.More > 0 {
		fmt.Fprintf(w, "and %d more faults\n", r.More)
	}
	if r.OK() {
		fmt.Fprintf(w, "good: signed by %s up to leaf %d, %d kept heads found in it\n", b.Head.KID, b.Head.N, len(b.Kept))
	}
	return err
}
