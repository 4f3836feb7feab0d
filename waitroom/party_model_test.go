package waitroom

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"
	"pgregory.net/rapid"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// friend is a person as the model knows them: in a party, or alone, or nowhere.
type friend struct {
	name     string
	id       EntryID  // whose they are, for Leave
	receipts []string // all that they were ever given
	party    *friends
	own      standing
	had      bool // their turn, in a party
}

// friends are a party.
type friends struct {
	entry   EntryID
	code    string
	members []*friend
	buyer   *friend
	at      standing
}

type standing int

const (
	nowhere standing = iota
	waits
	admitted
	entered
	completed
)

func (s standing) alive() bool { return s == waits || s == admitted || s == entered }

// partyMachine runs the same commands on a Line and on the model. Once it has lost its
// store, only what holds in any case is looked at: who comes back depends on chance.
type partyMachine struct {
	l      *Line
	t      *testing.T
	jwt    bool
	lobby  bool
	exact  bool
	people []*friend
	all    []*friends
	ev     Event
}

const partySize = 3

func (m *partyMachine) somebody(t *rapid.T) *friend {
	if len(m.people) == 0 {
		t.Skip("nobody yet")
	}
	return rapid.SampledFrom(m.people).Draw(t, "person")
}

// says is how a person says who they are: by any token that they ever had, or by their
// name where the site has one for them, or by both.
func (m *partyMachine) says(t *rapid.T, p *friend) PartyRequest {
	r := PartyRequest{JoinRequest: JoinRequest{Event: "e"}}
	if m.jwt {
		r.Subject = p.name
	}
	if n := rapid.IntRange(0, len(p.receipts)).Draw(t, "token"); n > 0 {
		r.Receipt = p.receipts[n-1]
	} else if !m.jwt {
		r.Receipt = p.receipts[len(p.receipts)-1]
	}
	return r
}

func (p *friend) holds(pl Place) {
	if !slices.Contains(p.receipts, pl.Receipt) {
		p.receipts = append(p.receipts, pl.Receipt)
	}
}

func (m *partyMachine) arrive(t *rapid.T) {
	p := &friend{name: fmt.Sprintf("person %d", len(m.people)), own: waits}
	r := JoinRequest{Event: "e"}
	if m.jwt {
		r.Subject = p.name
	}
	pl, err := m.l.Join(m.t.Context(), r)
	require.NoError(t, err)
	p.holds(pl)
	p.id = pl.Entry
	m.people = append(m.people, p)
}

func (m *partyMachine) again(t *rapid.T) {
	p := m.somebody(t)
	pl, err := m.l.Join(m.t.Context(), m.says(t, p).JoinRequest)
	if err == nil {
		p.holds(pl)
	}
	if !m.exact {
		return
	}
	if p.had || p.party != nil && p.party.at == completed {
		require.ErrorIs(t, err, ErrNotEligible)
		return
	}
	require.NoError(t, err)
	switch {
	case p.party != nil && p.party.at.alive():
		require.Equal(t, p.party.entry, pl.Entry)
	case p.own.alive():
		require.Equal(t, p.id, pl.Entry)
	default:
		require.True(t, pl.Created)
		require.Equal(t, p.id, pl.Entry)
		m.leaves(p)
		p.own = waits
	}
}

func (m *partyMachine) makes(t *rapid.T) {
	p := m.somebody(t)
	party, err := m.l.MakeParty(m.t.Context(), m.says(t, p))
	if err == nil {
		p.holds(party.Place)
	}
	switch {
	case !m.exact:
		if err == nil {
			m.all = append(m.all, &friends{code: party.Code})
		}
	case p.party != nil && p.party.at.alive():
		require.NoError(t, err)
		require.Equal(t, p.party.code, party.Code)
	case !m.lobby:
		require.ErrorIs(t, err, ErrLobbyOver)
	case p.own != waits:
		require.ErrorIs(t, err, ErrNoEntry)
	default:
		require.NoError(t, err)
		p.own, p.party = nowhere, &friends{entry: party.Place.Entry, code: party.Code, members: []*friend{p}, buyer: p, at: waits}
		m.all = append(m.all, p.party)
	}
}

func (m *partyMachine) joins(t *rapid.T) {
	if len(m.all) == 0 {
		t.Skip("no party yet")
	}
	p, to := m.somebody(t), rapid.SampledFrom(m.all).Draw(t, "party")
	req := m.says(t, p)
	req.PartyCode = to.code
	party, err := m.l.JoinParty(m.t.Context(), req)
	if err == nil {
		p.holds(party.Place)
	}
	switch {
	case !m.exact:
	case to.at != waits && m.lobby:
		require.ErrorIs(t, err, ErrNoParty)
	case to.at != waits:
		require.ErrorIs(t, err, ErrLobbyOver)
	case p.party == to:
		require.NoError(t, err)
	case p.party != nil && p.party.at.alive():
		require.ErrorIs(t, err, ErrInParty)
	case !m.lobby:
		require.ErrorIs(t, err, ErrLobbyOver)
	case len(to.members) == partySize:
		require.ErrorIs(t, err, ErrPartyFull)
	default:
		require.NoError(t, err)
		p.own, p.party = nowhere, to
		to.members = append(to.members, p)
	}
}

// leaves takes p out of the party, in the model.
func (m *partyMachine) leaves(p *friend) {
	of := p.party
	if of == nil {
		return
	}
	p.party = nil
	p.had = of.at == entered || of.at == completed
	of.members = slices.DeleteFunc(of.members, func(o *friend) bool { return o == p })
	if len(of.members) == 0 || of.buyer == p && of.at == entered {
		if of.at = completed; !p.had {
			of.at = nowhere
		}
	}
	if of.buyer == p && len(of.members) > 0 && !p.had {
		of.buyer = of.members[0]
	}
}

func (m *partyMachine) leavesParty(t *rapid.T) {
	p := m.somebody(t)
	require.NoError(t, m.l.LeaveParty(m.t.Context(), m.says(t, p)))
	if m.exact {
		m.leaves(p)
	}
}

func (m *partyMachine) leavesAll(t *rapid.T) {
	p := m.somebody(t)
	require.NoError(t, m.l.Leave(m.t.Context(), "e", p.id))
	switch {
	case !m.exact:
	case p.party != nil:
		m.leaves(p)
	default:
		p.own = nowhere
	}
}

func (m *partyMachine) buys(t *rapid.T) {
	p := m.somebody(t)
	_, err := m.l.BuyForParty(m.t.Context(), m.says(t, p))
	switch {
	case !m.exact:
	case p.party == nil || !p.party.at.alive():
		require.ErrorIs(t, err, ErrNoParty)
	case p.party.at == entered && p.party.buyer != p:
		require.ErrorIs(t, err, ErrUsed)
	default:
		require.NoError(t, err)
		p.party.buyer = p
	}
}

// draws ends the lobby: the list has one leaf for each party and each who stands alone.
func (m *partyMachine) draws(t *rapid.T) {
	if !m.lobby {
		t.Skip("drawn")
	}
	waiting := m.check(t)
	_, err := m.l.Patch(m.t.Context(), "e", []byte(`{"state":"open"}`), "test")
	require.NoError(t, err)
	m.lobby = false
	ev, err := m.l.Event(m.t.Context(), "e")
	require.NoError(t, err)
	v, err := NewView(m.l, nil)
	require.NoError(t, err)
	require.NoError(t, NewDrawer(m.l, v, nil, zaptest.NewLogger(m.t)).draw(m.t.Context(), ev))
	ev, err = m.l.Event(m.t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, waiting, ev.Draw.Size)
	if waiting > 0 {
		b, err := m.l.Bundle(m.t.Context(), ev)
		require.NoError(t, err)
		require.NoError(t, b.Verify())
	}
}

// serves lets the next in, and perhaps has them enter, and be done.
func (m *partyMachine) serves(t *rapid.T) {
	if m.lobby {
		t.Skip("nobody is let in")
	}
	steps := rapid.IntRange(1, 3).Draw(t, "steps")
	for _, g := range promote(m.t, m.l, 1).Grants {
		var at *standing
		var buyer *friend
		for _, p := range m.people {
			switch {
			case p.own.alive() && p.id == g.Entry:
				at, buyer = &p.own, p
			case p.party != nil && p.party.entry == g.Entry:
				at, buyer = &p.party.at, p.party.buyer
			}
		}
		if m.exact {
			require.NotNil(t, at, "somebody's entry was let in")
			*at = admitted
			if m.jwt {
				require.Equal(t, buyer.name, g.Subject)
			}
		}
		if steps > 1 {
			_, err := m.l.Enter(m.t.Context(), "e", passOf(g))
			require.NoError(t, err)
			if m.exact {
				*at = entered
			}
		}
		if steps > 2 {
			require.NoError(t, m.l.Complete(m.t.Context(), "e", g.JTI))
			if m.exact {
				*at = completed
			}
		}
	}
}

// loses is the store's: it begins empty, and the event is made again.
func (m *partyMachine) loses(t *rapid.T) {
	if !m.lobby || rapid.IntRange(0, 3).Draw(t, "seldom") > 0 {
		t.Skip("not now")
	}
	keys, err := m.l.rdb.Keys(m.t.Context(), m.l.cfg.Prefix+":*").Result()
	require.NoError(t, err)
	require.NoError(t, m.l.rdb.Del(m.t.Context(), keys...).Err())
	_, err = m.l.Create(m.t.Context(), m.ev.Settings, Lobby, "test")
	require.NoError(t, err)
	m.exact = false
}

// looks has somebody ask by every token that they ever had: all say the same.
func (m *partyMachine) looks(t *rapid.T) {
	p := m.somebody(t)
	for _, token := range p.receipts {
		pl, err := m.l.Place(m.t.Context(), "e", token)
		if !m.exact {
			if err != nil {
				require.ErrorIs(t, err, ErrNoEntry)
			}
			continue
		}
		require.NoError(t, err)
		switch of := p.party; {
		case of != nil:
			require.Equal(t, of.entry, pl.Entry)
			require.Equal(t, &Membership{Members: len(of.members), Buys: of.buyer == p}, pl.Party)
			require.Equal(t, of.buyer == p && (of.at == admitted || of.at == entered), pl.Grant.JTI != "")
			if m.jwt && pl.Grant.JTI != "" {
				require.Equal(t, p.name, pl.Grant.Subject)
			}
		default:
			require.Equal(t, p.id, pl.Entry)
			require.Nil(t, pl.Party)
			require.Equal(t, p.own == waits, pl.State == EntryWaiting || pl.State == EntryLobby)
		}
	}
}

// check holds after every step, also after a loss. It gives how many wait.
func (m *partyMachine) check(t *rapid.T) int {
	ctx := m.t.Context()
	line, err := m.l.rdb.ZRangeWithScores(ctx, m.l.keys.line("e"), 0, -1).Result()
	require.NoError(t, err)
	grants, err := m.l.rdb.HKeys(ctx, m.l.keys.grants("e")).Result()
	require.NoError(t, err)
	party, err := m.l.rdb.HGetAll(ctx, m.l.keys.party("e")).Result()
	require.NoError(t, err)
	held := grants
	seqs := make(map[float64]bool)
	for _, z := range line {
		entry, _ := z.Member.(string)
		held = append(held, entry)
		require.False(t, seqs[z.Score], "a sequence is there twice")
		seqs[z.Score] = true
	}
	for field, value := range party {
		switch field[0] {
		case 'm':
			require.NotContains(t, held, field[1:], "who is in a party has an entry beside it")
			if value != "!" {
				require.Contains(t, strings.Fields(party["p"+value])[2:], field[1:])
			}
		case 'p':
			words := strings.Fields(value)
			require.LessOrEqual(t, len(words)-2, partySize)
			if party["m"+words[1]] != "!" { // who bought and left keeps what is bought
				require.Contains(t, words[2:], words[1], "the buyer is a member")
			}
			for _, member := range words[2:] {
				require.Equal(t, field[1:], party["m"+member], "a member of two parties")
			}
		}
	}
	if !m.exact {
		return len(line)
	}
	waiting := make(map[EntryID]bool)
	for _, p := range m.people {
		if p.own == waits {
			waiting[p.id] = true
		}
		if p.party != nil && p.party.at == waits {
			waiting[p.party.entry] = true
		}
	}
	require.Len(t, line, len(waiting), "as many entries as parties and people alone")
	for _, z := range line {
		require.True(t, waiting[EntryID(z.Member.(string))])
	}
	return len(line)
}

// doc.go promises 23 to 25: nobody has two chances, whoever makes, joins, leaves, comes
// back with whatever token of theirs, at any time, and also over losses of the store.
func TestPromise25NobodyHasTwoChances(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Config{}).Client(t)
	for _, jwt := range []bool{false, true} {
		t.Run(fmt.Sprintf("jwt=%v", jwt), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				l := testLine(t, rdb)
				m := &partyMachine{l: l, t: t, jwt: jwt, lobby: true, exact: true}
				m.ev = partyLobby(t, l, func(s *Settings) {
					s.Party.Size = partySize
					if jwt {
						s.Identity = identityJWT
					}
				})
				rt.Repeat(map[string]func(*rapid.T){
					"arrive": m.arrive, "arrive too": m.arrive, "join again": m.again, "make": m.makes, "join": m.joins, "join too": m.joins,
					"leave the party": m.leavesParty, "leave": m.leavesAll, "buy": m.buys, "draw": m.draws, "serve": m.serves, "lose": m.loses, "look": m.looks,
					"": func(rt *rapid.T) { m.check(rt) },
				})
			})
		})
	}
}
