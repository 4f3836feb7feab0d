package waitroom

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// asker is a person as the model of mode instant knows them.
type asker struct {
	entry   EntryID
	receipt string
	rank    int64
	jti     string
	held    bool // holds a grant
	entered bool
	used    bool // a token of theirs was used up
	until   time.Duration
}

// issueMachine runs the same commands on a Line and on the quota in plain words.
type issueMachine struct {
	l      *Line
	began  time.Time
	now    time.Duration
	quota  int
	never  bool
	people []*asker
	ranks  int64
	used   int
	filed  map[string]int64 // jti → rank, of what the archive had
	given  map[string]int64
}

func (m *issueMachine) held() int {
	n := 0
	for _, p := range m.people {
		if p.held {
			n++
		}
	}
	return n
}

func (m *issueMachine) end(p *asker) {
	if p.entered {
		p.used = true
		m.used++
	}
	p.held, p.entered = false, false
}

func (m *issueMachine) sweep() {
	for _, p := range m.people {
		if p.held && p.until <= m.now {
			m.end(p)
		}
	}
}

func (m *issueMachine) somebody(t *rapid.T) *asker {
	if len(m.people) == 0 {
		t.Skip("nobody yet")
	}
	return rapid.SampledFrom(m.people).Draw(t, "person")
}

func (m *issueMachine) Ask(t *rapid.T) {
	p := &asker{}
	if len(m.people) > 0 && rapid.Bool().Draw(t, "again") {
		p = m.somebody(t)
	}
	m.ask(t, p)
}

// Resend runs the same script twice, as a client does whose reply was lost: its
// second answer is the first.
func (m *issueMachine) Resend(t *rapid.T) {
	c := m.l.whoJoins(JoinRequest{Event: "e"})
	more := []string{m.l.keys.issued("e"), m.l.keys.archive("e")}
	args := []any{newID(), int64(0), mostUnarchived, c.arg()}
	first, err := m.l.call(t.Context(), scriptIssue, "e", more, args...)
	require.NoError(t, err)
	second, err := m.l.call(t.Context(), scriptIssue, "e", more, args...)
	require.NoError(t, err)
	require.Equal(t, first, second)
	got, err := parseIssued("e", c.entry, placeReply(first.rest[0]))
	got.Receipt = m.l.signer.sign(receipt{Event: "e", Entry: c.entry, Seq: got.Seq})
	m.answered(t, &asker{}, got, err)
}

func (m *issueMachine) ask(t *rapid.T, p *asker) {
	got, err := m.l.Issue(t.Context(), IssueRequest{Event: "e", Receipt: p.receipt})
	m.answered(t, p, got, err)
}

func (m *issueMachine) answered(t *rapid.T, p *asker, got Issued, err error) {
	// A grant of the asker's own that is over ends by being looked at.
	if p.held && p.until <= m.now {
		m.end(p)
	}
	if p.held || p.used || m.never && p.rank > 0 {
		require.NoError(t, err)
		require.False(t, got.Created)
		require.Equal(t, p.rank, got.Rank)
		require.Equal(t, p.jti, got.Grant.JTI)
		return
	}
	if !m.never {
		m.sweep() // an ask makes room of what is over
	}
	switch {
	case m.never && m.ranks >= int64(m.quota), !m.never && m.used >= m.quota:
		require.ErrorIs(t, err, ErrSoldOut)
	case !m.never && m.held()+m.used >= m.quota:
		require.ErrorIs(t, err, ErrExhausted)
	default:
		require.NoError(t, err)
		require.True(t, got.Created)
		m.ranks++
		require.Equal(t, m.ranks, got.Rank)
		if p.rank == 0 {
			m.people = append(m.people, p)
		}
		p.entry, p.receipt, p.rank, p.jti = got.Entry, got.Receipt, got.Rank, got.Grant.JTI
		p.held, p.until = true, m.now+modelClaim
		m.given[p.jti] = p.rank
	}
}

func (m *issueMachine) Enter(t *rapid.T) {
	p := m.somebody(t)
	_, err := m.l.Enter(t.Context(), "e", Pass{Event: "e", JTI: p.jti})
	if p.held && p.until <= m.now {
		m.end(p)
	}
	require.Equal(t, p.held, err == nil, "got %v", err)
	if p.held && !p.entered {
		p.entered, p.until = true, m.now+modelSession
	}
}

func (m *issueMachine) Complete(t *rapid.T) {
	p := m.somebody(t)
	err := m.l.Complete(t.Context(), "e", p.jti)
	if p.held {
		require.NoError(t, err)
		p.entered = true // the site says that it was used
		m.end(p)
	}
}

func (m *issueMachine) Leave(t *rapid.T) {
	p := m.somebody(t)
	require.NoError(t, m.l.Leave(t.Context(), "e", p.entry))
	if p.held {
		m.end(p)
	}
}

func (m *issueMachine) Time(t *rapid.T) {
	m.now += time.Duration(rapid.IntRange(1, 15).Draw(t, "steps")) * modelStep
	m.setClock(t)
}

func (m *issueMachine) setClock(t *rapid.T) {
	require.NoError(t, m.l.rdb.HSet(t.Context(), m.l.keys.meta("e"), "clock_ms", m.began.Add(m.now).UnixMilli()).Err())
}

func (m *issueMachine) Sweep(t *rapid.T) {
	_, err := m.l.Sweep(t.Context(), "e")
	require.NoError(t, err)
	m.sweep()
}

func (m *issueMachine) File(t *rapid.T) {
	b, err := m.l.Unfiled(t.Context(), "e", 3, 0)
	require.NoError(t, err)
	for _, g := range b.Given {
		m.filed[g.JTI] = g.Rank
	}
	if rapid.Bool().Draw(t, "crash before it is said") {
		return
	}
	require.NoError(t, m.l.Filed(t.Context(), "e", b.Records))
}

func (m *issueMachine) Check(t *rapid.T) {
	e, err := m.l.Event(t.Context(), "e")
	require.NoError(t, err)
	require.EqualValues(t, m.held(), e.Inside)
	if m.never {
		require.LessOrEqual(t, m.ranks, int64(m.quota))
	} else {
		require.LessOrEqual(t, m.held()+m.used, m.quota)
	}
}

// Promises 4, 8, 10 and 11 under random commands.
func TestPromise10IssueBehavesAsItsModel(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := start(t)
			rapid.Check(t, func(rt *rapid.T) {
				m := &issueMachine{
					l: testLine(t, rdb), quota: rapid.IntRange(1, 4).Draw(rt, "quota"), never: rapid.Bool().Draw(rt, "never"),
					filed: make(map[string]int64), given: make(map[string]int64),
				}
				s := DefaultSettings("e")
				s.Mode, s.Quota.Factor, s.Tickets.Kind, s.Tickets.Stock = "instant", 1, "stock", m.quota
				s.ClaimTTL, s.SessionTTL = Duration(modelClaim), Duration(modelSession)
				if m.never {
					s.Quota.Returns = "never"
				}
				e, err := m.l.Create(rt.Context(), s, Open, "op")
				require.NoError(rt, err)
				m.began = e.Now
				m.setClock(rt)
				rt.Repeat(map[string]func(*rapid.T){
					"ask": m.Ask, "sent again": m.Resend, "enter": m.Enter, "complete": m.Complete, "leave": m.Leave,
					"time": m.Time, "sweep": m.Sweep, "file": m.File, "": m.Check,
				})
				for {
					b, err := m.l.Unfiled(rt.Context(), "e", 100, 0)
					require.NoError(rt, err)
					if len(b.Records) == 0 {
						break
					}
					for _, g := range b.Given {
						m.filed[g.JTI] = g.Rank
					}
					require.NoError(rt, m.l.Filed(rt.Context(), "e", b.Records))
				}
				require.Equal(rt, m.given, m.filed, "everything that was given out is filed, with its rank")
			})
		})
	}
}
