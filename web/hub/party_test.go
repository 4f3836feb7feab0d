package hub

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

// doc.go promise 14.
func TestPromise14APartyHearsOfItselfAndTheBuyerHasTheToken(t *testing.T) {
	t.Parallel()
	st := newStage()
	st.do(func() {
		ev := st.events[concert]
		ev.Party.Size = 4
		st.events[concert] = ev
	})
	st.seat(1, 1)
	st.seat(2, 2)
	// member is what the line says of somebody in the party of "them".
	member := func(who string, members int, buys bool, jti string) {
		p := waitroom.Place{
			Event: concert, Entry: "them", Seq: 1, State: waitroom.EntryWaiting, Receipt: receiptOf("them/"+who, 1),
			Party: &waitroom.Membership{Members: members, Buys: buys},
		}
		if jti != "" {
			p.State = waitroom.EntryAdmitted
			p.Grant = grantFor("them", 1)
			if p.Grant.JTI = ""; buys {
				p.Grant.JTI = jti
			}
		}
		st.do(func() { st.places[waitroom.EntryID(who)] = p })
	}
	told := func(entry, what string) {
		t.Helper()
		until(t, entry+" "+what, func() bool {
			st.mu.Lock()
			defer st.mu.Unlock()
			return st.told[waitroom.EntryID(entry)] == what
		})
	}
	party := func(f *fan, members int, buys bool) said {
		t.Helper()
		for {
			if m := f.wait("party"); m.Members == members && m.YouBuy == buys {
				require.Equal(t, 4, m.Size)
				return m
			}
		}
	}
	n := startNode(t, quick(), st.deps())
	ann, bob := dial(t, n, cookie(receiptOf("ann", 1))), dial(t, n, cookie(receiptOf("bob", 2)))
	ann.wait("position")
	bob.wait("position")

	// Ann makes a party of her place, and bob joins it, each with an open socket.
	member("ann", 1, true, "")
	n.Parties(concert, []waitroom.EntryID{"them", "ann"})
	party(ann, 1, true)
	st.leaveLine(2)
	member("ann", 2, true, "")
	member("bob", 2, false, "")
	n.Parties(concert, []waitroom.EntryID{"them", "bob"})
	party(ann, 2, true)
	party(bob, 2, false)
	require.Equal(t, int64(1), bob.wait("position").Position, "the party's place")
	told("them", "here")
	member("cat", 3, false, "")
	cat := dial(t, n, cookie(receiptOf("them/cat", 1))) // came with the token of a member
	party(cat, 3, false)
	require.NoError(t, cat.ws.Close())
	until(t, "the socket to be gone", func() bool { return n.Sockets() == 2 })

	// Their turn: bob has no token until he takes over.
	st.leaveLine(1)
	member("ann", 3, true, "one")
	member("bob", 3, false, "one")
	n.Admitted(concert, []waitroom.Grant{grantFor("them", 1)})
	require.Equal(t, "token-one", ann.wait("admitted").EntryToken)
	turn := party(bob, 3, false)
	require.Equal(t, "admitted", turn.State)
	require.Equal(t, time.Unix(1_800_000_300, 0).UTC().Format(stampFormat), turn.ExpiresAt)
	member("ann", 3, false, "two")
	member("bob", 3, true, "two")
	n.Parties(concert, []waitroom.EntryID{"them"})
	for {
		m := bob.next()
		require.NotEqual(t, "token-one", m.EntryToken)
		if m.Type == "admitted" {
			require.Equal(t, "token-two", m.EntryToken)
			break
		}
	}
	party(ann, 3, false)

	st.do(func() { require.Equal(t, "here", st.told["them"]) })
	require.NoError(t, bob.ws.Close())
	until(t, "the socket to be gone", func() bool { return n.Sockets() == 1 })
	n.Ended(concert, []waitroom.End{{Entry: "them", JTI: "two", State: waitroom.EntryCompleted}})
	require.Equal(t, "completed", ann.wait("ended").State, "who did not buy hears of the end too")
	st.do(func() { require.Equal(t, "here", st.told["them"], "somebody is still there") })
	require.NoError(t, ann.ws.Close())
	told("them", "away")
}
