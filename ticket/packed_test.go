package ticket

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A list comes out of either database as it went in.
func TestListsComeAsTheyWent(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, address string) {
		t.Helper()
		s := openStore(t, address, Config{})
		texts := []string{"", `a "quoted" \ one`, "zwölf\n", "NULL", "{1,2}", strings.Repeat("long ", 40_000)}
		numbers := []int64{0, -1, 1<<63 - 1, -1 << 63, 42, 7}
		blobs := [][]byte{{}, {0}, []byte(`\x00`), {255, 254}, []byte("text"), {}}
		for n := range len(texts) + 1 {
			var gotTexts []string
			var gotNumbers []int64
			var gotBlobs [][]byte
			require.NoError(t, s.db.look(t.Context(), func(ctx context.Context, x tx) error {
				return x.query(ctx, func(scan func(...any) error) error {
					var text string
					var number int64
					var blob []byte
					err := scan(&text, &number, &blob)
					gotTexts, gotNumbers, gotBlobs = append(gotTexts, text), append(gotNumbers, number), append(gotBlobs, append([]byte{}, blob...))
					return err
				}, `SELECT r.t, CAST(r.n AS BIGINT), r.b FROM {rows}`, table("t", texts[:n]).column("n", numbers[:n]).column("b", blobs[:n]))
			}))
			require.Equal(t, texts[:n], append([]string{}, gotTexts...))
			require.Equal(t, numbers[:n], append([]int64{}, gotNumbers...))
			require.Equal(t, blobs[:n], append([][]byte{}, gotBlobs...))
		}
		_, _, err := postgres.rows(table("x", []bool{true}), 1)
		require.ErrorContains(t, err, "column x")
	})
}
