package pay

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A sandbox that was killed finds what it charged and gave back: a key is still one
// deed, a charge that nobody heard of can be asked about, and half a line is no charge.
func TestSandboxRemembersAcrossAKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	open := func() *Sandbox {
		s, err := OpenSandbox(SandboxConfig{}, path)
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	asked := func(key, method string) ChargeRequest {
		return ChargeRequest{Key: key, AmountCents: 900, Currency: "EUR", Method: method}
	}
	first := open()
	for _, method := range []string{MethodApprove, MethodDecline, MethodTwice} {
		_, err := first.Charge(t.Context(), asked(method, method))
		require.NoError(t, err)
	}
	back := RefundRequest{Key: "back", ChargeKey: MethodTwice, AmountCents: 400, Currency: "EUR"}
	refund, err := first.Refund(t.Context(), back)
	require.NoError(t, err)
	torn, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = torn.WriteString(`{"charge":{"id":"ch_4","key":"torn","sta`)
	require.NoError(t, err)
	require.NoError(t, torn.Close())

	second := open() // nobody has closed the first
	require.Equal(t, Books{Captured: 2, CapturedCents: 1800, Declined: 1, Refunded: 1, RefundedCents: 400}, second.Audit())
	_, err = second.Find(t.Context(), "torn")
	require.ErrorIs(t, err, ErrNotFound)
	again, err := second.Charge(t.Context(), asked(MethodApprove, MethodApprove))
	require.NoError(t, err)
	require.Equal(t, "ch_1", again.ID)
	_, err = second.Charge(t.Context(), asked(MethodApprove, MethodTwice))
	require.ErrorIs(t, err, ErrRefused, "another charge under the key")
	found, err := second.Find(t.Context(), MethodTwice)
	require.NoError(t, err)
	require.EqualValues(t, 400, found.RefundedCents)
	same, err := second.Refund(t.Context(), back)
	require.NoError(t, err)
	require.Equal(t, refund, same)
	_, err = second.Charge(t.Context(), asked("torn", MethodApprove))
	require.NoError(t, err)
	third := open()
	captured, refunded := third.Recount()
	require.Equal(t, []int64{2700, 400}, []int64{captured, refunded})

	require.NoError(t, third.Close())
	_, err = third.Charge(t.Context(), asked("late", MethodApprove))
	require.ErrorIs(t, err, ErrDown, "what cannot be kept is not charged")
	_, err = third.Find(t.Context(), "late")
	require.ErrorIs(t, err, ErrNotFound)
	require.NoError(t, os.WriteFile(path, []byte("{}\n"), 0o600))
	_, err = OpenSandbox(SandboxConfig{}, path)
	require.ErrorContains(t, err, "line 1")
	_, err = OpenSandbox(SandboxConfig{}, filepath.Join(path, "x"))
	require.Error(t, err)
}
