package web

import (
	"context"
	"fmt"

	"github.com/waitroom-dev/waitroom/waitroom"
	"github.com/waitroom-dev/waitroom/waitroom/draw"
)

// fakeOperations knows the event "demo"; err is the answer to every call.
type fakeOperations struct {
	err     error
	created []waitroom.Settings
	deleted []waitroom.EventID
	patched []string
	notes   []waitroom.AuditRecord
	by      string                 // who patched last
	trail   []waitroom.AuditRecord // nil: one record that tells how it was asked for
	admit   func(waitroom.AdmitRequest) ([]waitroom.Grant, error)
}

func (o *fakeOperations) known(id waitroom.EventID) (waitroom.Event, error) {
	switch {
	case o.err != nil:
		return waitroom.Event{}, o.err
	case id != "demo":
		return waitroom.Event{}, waitroom.ErrNoEvent
	}
	s := waitroom.DefaultSettings("demo")
	opens := testNow.Add(-3600e9)
	s.OpensAt = &opens
	return waitroom.Event{Settings: s, State: waitroom.Open, Version: 2, Now: testNow}, nil
}

func (o *fakeOperations) Create(_ context.Context, s waitroom.Settings, state waitroom.State, _ string) (waitroom.Event, error) {
	if s.ID == "demo" {
		return waitroom.Event{}, waitroom.ErrExists
	}
	if o.err != nil {
		return waitroom.Event{}, o.err
	}
	o.created = append(o.created, s)
	return waitroom.Event{Settings: s, State: state, Version: 1, Now: testNow}, nil
}

func (o *fakeOperations) Patch(_ context.Context, id waitroom.EventID, patch []byte, by string) (waitroom.Event, error) {
	e, err := o.known(id)
	if err == nil {
		o.by = by
		o.patched = append(o.patched, string(patch))
	}
	return e, err
}

func (o *fakeOperations) Delete(_ context.Context, id waitroom.EventID, _ string) error {
	o.deleted = append(o.deleted, id)
	return o.err
}

func (o *fakeOperations) Event(_ context.Context, id waitroom.EventID) (waitroom.Event, error) {
	return o.known(id)
}

func (o *fakeOperations) Events(context.Context) ([]waitroom.Event, error) {
	e, err := o.known("demo")
	return []waitroom.Event{e}, err
}

func (o *fakeOperations) Admit(_ context.Context, _ waitroom.EventID, r waitroom.AdmitRequest) ([]waitroom.Grant, error) {
	if o.admit != nil {
		return o.admit(r)
	}
	return []waitroom.Grant{annsGrant("demo")}, o.err
}

func (o *fakeOperations) Block(_ context.Context, id waitroom.EventID, entry waitroom.EntryID, _ string) error {
	if entry == "unknown" {
		return waitroom.ErrNoEntry
	}
	_, err := o.known(id)
	return err
}

func (o *fakeOperations) BlockSubject(_ context.Context, id waitroom.EventID, _, _ string) error {
	_, err := o.known(id)
	return err
}

func (o *fakeOperations) Note(_ context.Context, id waitroom.EventID, deed waitroom.AuditRecord) error {
	o.notes = append(o.notes, deed)
	_, err := o.known(id)
	return err
}

func (o *fakeOperations) Revoke(_ context.Context, id waitroom.EventID, jti, _ string) error {
	if jti == "unknown" {
		return waitroom.ErrNoEntry
	}
	_, err := o.known(id)
	return err
}

func (o *fakeOperations) AddCodes(_ context.Context, req waitroom.CodesRequest) (int, error) {
	return len(req.Codes), o.err
}

func (o *fakeOperations) Audit(_ context.Context, _ waitroom.EventID, after string, limit int) ([]waitroom.AuditRecord, error) {
	if o.trail != nil {
		return o.trail, o.err
	}
	return []waitroom.AuditRecord{{ID: "1-0", At: testNow, By: "operator", What: "patch", Before: after, After: string(rune('0' + limit%10))}}, o.err
}

// fakeDraws drew one entrant, ann.
type fakeDraws struct{}

func (fakeDraws) Bundle(_ context.Context, ev waitroom.Event) (draw.Bundle, error) {
	if ev.Order != "draw" {
		return draw.Bundle{}, waitroom.ErrNotDrawn
	}
	return draw.Bundle{Event: string(ev.ID), Size: 1, Line: []draw.Hash{draw.Leaf(string(ev.ID), ann)}}, nil
}

func (fakeDraws) Proof(_ context.Context, ev waitroom.Event, entry waitroom.EntryID) (draw.Proof, error) {
	if ev.Order != "draw" {
		return draw.Proof{}, waitroom.ErrNotDrawn
	}
	return draw.Proof{Leaf: draw.Leaf(string(ev.ID), string(entry)), Size: 1, Path: []draw.Hash{}}, nil
}

// fakeAdmissionLog has two pages: the first is full.
type fakeAdmissionLog struct{}

func (fakeAdmissionLog) Page(_ context.Context, id waitroom.EventID, from int64, most int) (page []byte, full bool, err error) {
	if id != "demo" {
		return nil, false, waitroom.ErrNoEvent
	}
	return fmt.Appendf(nil, `{"from":%d,"most":%d}`, from, most), from == 0, nil
}

func (fakeAdmissionLog) Head(waitroom.EventID) ([]byte, bool) { return []byte(`{"n":7}`), true }
