package web

import (
	"context"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// annsParty is a party of ann and another, for which ann buys.
func annsParty(event waitroom.EventID) waitroom.Party {
	p := annsPlace(event)
	p.Entry, p.Receipt, p.Party = "theirs", partyReceipt, &waitroom.Membership{Members: 2, Buys: true}
	return waitroom.Party{Place: p, Code: "ABCDE-FGHJK"}
}

func (l *fakeLine) partyCall(r waitroom.PartyRequest) (waitroom.Party, error) {
	if l.party != nil {
		return l.party(r)
	}
	if r.Receipt == "" {
		return waitroom.Party{}, waitroom.ErrTokenRequired
	}
	return annsParty(r.Event), nil
}

func (l *fakeLine) MakeParty(_ context.Context, r waitroom.PartyRequest) (waitroom.Party, error) {
	p, err := l.partyCall(r)
	p.Place.Created = err == nil
	return p, err
}

func (l *fakeLine) JoinParty(_ context.Context, r waitroom.PartyRequest) (waitroom.Party, error) {
	return l.partyCall(r)
}

func (l *fakeLine) Party(_ context.Context, r waitroom.PartyRequest) (waitroom.Party, error) {
	return l.partyCall(r)
}

func (l *fakeLine) LeaveParty(_ context.Context, r waitroom.PartyRequest) error {
	_, err := l.partyCall(r)
	return err
}

func (l *fakeLine) BuyForParty(_ context.Context, r waitroom.PartyRequest) (waitroom.Party, error) {
	return l.partyCall(r)
}
