package waitroom

import "time"

// EventID names an event: 1 to 64 characters of a-z, 0-9 and "-".
type EventID string

// EntryID names one person's entry in one event. It is unique within the event
// and no secret: only a receipt or an entry token proves that one holds it.
type EntryID string

// Seq is an entry's sequence number: larger than that of everyone who joined
// before. It stays below 2^53, so that a sorted set's score holds it exactly.
type Seq int64

// EntryState is where an entry is on its way.
type EntryState string

// The states of an entry, in the order of a whole way.
const (
	EntryLobby     EntryState = "lobby"     // joined before opening, in a draw; no position yet
	EntryWaiting   EntryState = "waiting"   // in the line
	EntryAdmitted  EntryState = "admitted"  // holds a grant that is not used yet
	EntryEntered   EntryState = "entered"   // inside
	EntryCompleted EntryState = "completed" // was inside
	EntryExpired   EntryState = "expired"   // away for longer than the grace, or the claim time ended
	EntryLeft      EntryState = "left"      // gave the place up
	EntryBlocked   EntryState = "blocked"   // put out by an operator
)

// Place is what an entry is told of itself.
type Place struct {
	Event EventID
	Entry EntryID
	Seq   Seq
	State EntryState
	// Created is true for the join that made this place, false for every later one.
	Created bool
	// Receipt is the signed place token.
	Receipt string
	// Grant is set while the state is admitted or entered.
	Grant Grant
	// Number is set in mode buffered, once it is known.
	Number *Result
	// Party is set for the members of a party: Entry, Seq and State are the party's then.
	// Grant has no JTI but for the member who buys, so that no other has a token.
	Party *Membership
}

// Membership is what a member is told of their party.
type Membership struct {
	// Members is how many there are, and Buys tells whether this one buys for all.
	Members int
	Buys    bool
}

// Grant is the right to come in. Everything in an entry token follows from it,
// so that every node mints the same bytes.
type Grant struct {
	Event EventID
	Entry EntryID
	Seq   Seq
	// Subject is who the token is for: the site's own sub with identity jwt, else
	// the entry's id.
	Subject string
	// JTI is unique for every grant ever given.
	JTI string
	// AdmittedAt is the moment of the promotion by the store's clock, to the
	// millisecond; the token's iat and nbf are its second.
	AdmittedAt time.Time
	// ClaimBy is the end of the claim time: the token's exp.
	ClaimBy time.Time
	// SessionEnds is the end of the session; zero until the grant is entered.
	SessionEnds time.Time
	// State is admitted or entered; or completed, expired or blocked (revoked) in
	// answers about a grant that has ended.
	State EntryState
	// Unchecked is true in the answer for somebody who passes though the store could not
	// be asked, since the event's fail is open.
	Unchecked bool
	// Entrance is true in the answer to the call that made it entered.
	Entrance bool
}

// Pass is a verified entry token.
type Pass struct {
	Event      EventID
	Subject    string
	JTI        string
	AdmittedAt time.Time
	ClaimBy    time.Time
	// Expired is true when ClaimBy is past: the pass proves who somebody is, and
	// opens the gate only for a grant that was entered in time.
	Expired bool
}

// End is a grant that is over.
type End struct {
	Entry EntryID
	JTI   string
	State EntryState // completed, expired, left or blocked
}

// Departure is an entry that stopped waiting without having been promoted.
type Departure struct {
	Entry EntryID
	Seq   Seq
	State EntryState // left, expired or blocked
}
