package waitroom

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// modelled is a person as the model knows them.
type modelled struct {
	receipts []string // all that they were ever given, oldest first
	state    EntryState
	seq      Seq
	jti      string
	until    time.Duration // end of grace, claim or session by the event's clock
}

// model is the line in plain words. It is told what the store answered only where
// the store decides: new sequences, jtis, and how many came in (the cap has its own
// tests); who they are, and what everyone sees, it says itself.
type model struct {
	people    []*modelled
	now       time.Duration
	state     State
	maxActive int
}

// Time stands but for steps of ten seconds, and deadlines lie between the steps,
// where the whole seconds of a claim's end decide nothing.
const (
	modelStep    = 10 * time.Second
	modelGrace   = 65 * time.Second
	modelClaim   = 105 * time.Second
	modelSession = 205 * time.Second
)

func (m *model) line() []*modelled {
	var in []*modelled
	for _, p := range m.people {
		if p.state == EntryWaiting {
			in = append(in, p)
		}
	}
	slices.SortFunc(in, func(a, b *modelled) int { return int(a.seq - b.seq) })
	return in
}

func (m *model) inside() int {
	n := 0
	for _, p := range m.people {
		if p.state == EntryAdmitted || p.state == EntryEntered {
			n++
		}
	}
	return n
}

// touch ends a grant that is over, as any look at it does.
func (m *model) touch(p *modelled) {
	if p.until > m.now {
		return
	}
	switch p.state { //nolint:exhaustive // only grants end by being looked at
	case EntryAdmitted:
		p.state = EntryExpired
	case EntryEntered:
		p.state = EntryCompleted
	}
}

func (m *model) sweep() {
	for _, p := range m.people {
		if p.state == EntryWaiting && p.until <= m.now {
			p.state = EntryExpired
		}
		m.touch(p)
	}
}

// lineMachine runs the same commands on a Line and on the model.
type lineMachine struct {
	model
	l     *Line
	began time.Time
}

func (m *lineMachine) somebody(t *rapid.T) *modelled {
	if len(m.people) == 0 {
		t.Skip("nobody yet")
	}
	return rapid.SampledFrom(m.people).Draw(t, "person")
}

func (m *lineMachine) receipt(t *rapid.T, p *modelled) string {
	return rapid.SampledFrom(p.receipts).Draw(t, "receipt")
}

func (m *lineMachine) entry(t *rapid.T, p *modelled) EntryID {
	e, _, err := m.l.ReadReceipt("e", p.receipts[0])
	require.NoError(t, err)
	return e
}

func (m *lineMachine) joinRefusal() error {
	switch m.state { //nolint:exhaustive // the others take people
	case Scheduled:
		return ErrNotOpen
	case Draining, Closed:
		return ErrClosed
	}
	return nil
}

func (m *lineMachine) enqueue(p *modelled, pl Place) {
	p.state, p.seq, p.until = EntryWaiting, pl.Seq, m.now+modelGrace
	p.receipts = append(p.receipts, pl.Receipt)
}

func (m *lineMachine) Join(t *rapid.T) {
	highest := Seq(0)
	for _, p := range m.people {
		highest = max(highest, p.seq)
	}
	pl, err := m.l.Join(t.Context(), JoinRequest{Event: "e"})
	require.ErrorIs(t, err, m.joinRefusal())
	if err == nil {
		require.True(t, pl.Created)
		require.Greater(t, pl.Seq, highest)
		p := &modelled{}
		m.people = append(m.people, p)
		m.enqueue(p, pl)
	}
}

func (m *lineMachine) JoinAgain(t *rapid.T) {
	p := m.somebody(t)
	m.touch(p)
	pl, err := m.l.Join(t.Context(), JoinRequest{Event: "e", Receipt: m.receipt(t, p)})
	switch p.state { //nolint:exhaustive // lobby belongs to draws
	case EntryBlocked:
		require.ErrorIs(t, err, ErrBlocked)
	case EntryWaiting, EntryAdmitted, EntryEntered:
		require.NoError(t, err)
		m.sees(t, p, pl)
	default:
		require.ErrorIs(t, err, m.joinRefusal())
		if err == nil {
			require.True(t, pl.Created)
			require.Greater(t, pl.Seq, p.seq)
			m.enqueue(p, pl)
		}
	}
}

// sees checks what a person is told.
func (m *lineMachine) sees(t *rapid.T, p *modelled, pl Place) {
	require.Equal(t, p.state, pl.State)
	require.Equal(t, p.seq, pl.Seq)
	require.False(t, pl.Created)
	if p.state == EntryWaiting {
		p.until = m.now + modelGrace
	}
	if p.state == EntryAdmitted || p.state == EntryEntered {
		require.Equal(t, p.jti, pl.Grant.JTI, "one grant for one place")
	}
}

func (m *lineMachine) Place(t *rapid.T) {
	p := m.somebody(t)
	m.touch(p)
	pl, err := m.l.Place(t.Context(), "e", m.receipt(t, p))
	if p.state == EntryBlocked {
		require.ErrorIs(t, err, ErrBlocked)
		return
	}
	require.NoError(t, err)
	m.sees(t, p, pl)
}

func (m *lineMachine) Leave(t *rapid.T) {
	p := m.somebody(t)
	require.NoError(t, m.l.Leave(t.Context(), "e", m.entry(t, p)))
	if p.state == EntryWaiting || p.state == EntryAdmitted || p.state == EntryEntered {
		p.state = EntryLeft
	}
}

func (m *lineMachine) Block(t *rapid.T) {
	p := m.somebody(t)
	require.NoError(t, m.l.Block(t.Context(), "e", m.entry(t, p), "op"))
	p.state = EntryBlocked
}

func (m *lineMachine) admit(t *rapid.T, grants []Grant) {
	line := m.line()
	require.LessOrEqual(t, len(grants), len(line))
	for i, g := range grants {
		p := line[i]
		require.Equal(t, m.entry(t, p), g.Entry, "the front of the line comes in, in order")
		require.Equal(t, p.seq, g.Seq)
		p.state, p.jti = EntryAdmitted, g.JTI
		p.until = m.now + modelClaim
	}
	if m.maxActive > 0 && len(grants) > 0 {
		require.LessOrEqual(t, m.inside(), m.maxActive)
	}
}

func (m *lineMachine) Promote(t *rapid.T) {
	n := rapid.IntRange(0, 5).Draw(t, "n")
	pr, err := m.l.Promote(t.Context(), PromoteRequest{Event: "e", Fence: 1, N: n})
	require.NoError(t, err)
	require.LessOrEqual(t, len(pr.Grants), n)
	switch pr.Reason {
	case "not_open":
		require.NotContains(t, []State{Open, Draining}, m.state)
	case "empty":
		require.Len(t, m.line(), len(pr.Grants))
	case "max_active":
		require.Len(t, pr.Grants, max(0, m.maxActive-m.inside()))
	case "":
		require.Len(t, pr.Grants, n)
	}
	m.admit(t, pr.Grants)
	require.Len(t, m.line(), int(pr.Waiting))
	require.Equal(t, m.inside(), int(pr.Inside))
}

func (m *lineMachine) Admit(t *rapid.T) {
	n := rapid.IntRange(1, 3).Draw(t, "n")
	grants, err := m.l.Admit(t.Context(), "e", AdmitRequest{Count: n, By: "op"})
	room := len(m.people)
	if m.maxActive > 0 {
		room = m.maxActive - m.inside()
	}
	switch {
	case m.state == Closed:
		require.ErrorIs(t, err, ErrClosed)
	case m.maxActive > 0 && room <= 0:
		require.ErrorIs(t, err, ErrFull)
	default:
		require.NoError(t, err)
		require.Len(t, grants, min(n, room, len(m.line())))
	}
	m.admit(t, grants)
}

func (m *lineMachine) Enter(t *rapid.T) {
	p := m.somebody(t)
	if p.jti == "" {
		t.Skip("never admitted")
	}
	g, err := m.l.Enter(t.Context(), "e", Pass{Event: "e", JTI: p.jti})
	had := p.state == EntryAdmitted || p.state == EntryEntered
	m.touch(p)
	switch {
	case p.state == EntryAdmitted || p.state == EntryEntered:
		require.NoError(t, err)
		require.Equal(t, p.state == EntryAdmitted, g.Entrance)
		if g.Entrance {
			p.state, p.until = EntryEntered, m.now+modelSession
		}
	case had:
		require.ErrorIs(t, err, ErrTokenExpired)
	default: // ended before, or waits anew
		require.Error(t, err)
		require.True(t, errors.Is(err, ErrNoEntry) || errors.Is(err, ErrRevoked), "got %v", err)
	}
}

func (m *lineMachine) Complete(t *rapid.T) {
	p := m.somebody(t)
	if p.jti == "" {
		t.Skip("never admitted")
	}
	err := m.l.Complete(t.Context(), "e", p.jti)
	if p.state == EntryAdmitted || p.state == EntryEntered {
		require.NoError(t, err)
		p.state = EntryCompleted
	} else if err != nil {
		require.ErrorIs(t, err, ErrNoEntry)
	}
}

func (m *lineMachine) setClock(t *rapid.T) {
	require.NoError(t, m.l.rdb.HSet(t.Context(), m.l.keys.meta("e"), "clock_ms", m.began.Add(m.now).UnixMilli()).Err())
}

func (m *lineMachine) Time(t *rapid.T) {
	m.now += time.Duration(rapid.IntRange(1, 9).Draw(t, "steps")) * modelStep
	m.setClock(t)
}

func (m *lineMachine) Sweep(t *rapid.T) {
	s, err := m.l.Sweep(t.Context(), "e")
	require.NoError(t, err)
	before := len(m.line())
	m.sweep()
	require.Equal(t, before-len(m.line()), s.Departed)
}

func (m *lineMachine) Patch(t *rapid.T) {
	m.state = rapid.SampledFrom([]State{Open, Open, Open, Paused, Draining, Lobby, Scheduled, Closed}).Draw(t, "state")
	_, err := m.l.Patch(t.Context(), "e", []byte(`{"state":"`+string(m.state)+`"}`), "op")
	require.NoError(t, err)
}

// Check compares the whole line after every command.
func (m *lineMachine) Check(t *rapid.T) {
	var want []string
	for _, p := range m.line() {
		want = append(want, string(m.entry(t, p)))
	}
	got, err := m.l.rdb.ZRange(t.Context(), m.l.keys.line("e"), 0, -1).Result()
	require.NoError(t, err)
	require.Equal(t, want, append([]string(nil), got...))
	e, err := m.l.Event(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, len(want), int(e.Waiting))
	require.Equal(t, m.inside(), int(e.Inside))
	require.Equal(t, m.state, e.State)
}

// Promises 1, 2, 4 and 8 under random commands.
func TestLineBehavesAsItsModel(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			rapid.Check(t, func(rt *rapid.T) {
				m := &lineMachine{l: testLine(t, rdb), model: model{state: Open, maxActive: rapid.IntRange(0, 4).Draw(rt, "max_active")}}
				s := DefaultSettings("e")
				s.RatePerS, s.MaxActive = 1000, m.maxActive
				s.Grace, s.ClaimTTL, s.SessionTTL = Duration(modelGrace), Duration(modelClaim), Duration(modelSession)
				e, err := m.l.Create(rt.Context(), s, Open, "op")
				require.NoError(rt, err)
				m.began = e.Now
				m.setClock(rt)
				rt.Repeat(map[string]func(*rapid.T){
					"join": m.Join, "join again": m.JoinAgain, "place": m.Place, "leave": m.Leave, "block": m.Block,
					"promote": m.Promote, "admit": m.Admit, "enter": m.Enter, "complete": m.Complete,
					"time": m.Time, "sweep": m.Sweep, "patch": m.Patch, "": m.Check,
				})
			})
		})
	}
}
