package admission

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom"
)

func TestKeysSurviveTheirFile(t *testing.T) {
	t.Parallel()
	k := NewKeys().Rotated()
	path := filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, os.WriteFile(path, k.Encode(), 0o600))
	got, err := LoadKeys(path)
	require.NoError(t, err)
	require.True(t, k.equal(got), "what was written is what is read")
	require.Equal(t, k.KIDs(), got.KIDs())
	require.Equal(t, k.ReceiptKeys(), got.ReceiptKeys())
	require.Equal(t, k.SubjectKey(), got.SubjectKey())
}

func TestRotatedKeysKeepWhatSignedSoFar(t *testing.T) {
	t.Parallel()
	a := NewKeys()
	b := a.Rotated()
	c := b.Rotated()
	require.Equal(t, a.KIDs()[0], b.KIDs()[1])
	require.Equal(t, a.ReceiptKeys()[0], b.ReceiptKeys()[1])
	require.Equal(t, a.SubjectKey(), c.SubjectKey(), "another subject key would make everybody somebody else")
	require.NotContains(t, c.KIDs(), a.KIDs()[0], "a key is gone after two rotations")
	require.Len(t, c.KIDs(), 2)
	b.ReceiptKeys()[0][0] ^= 1
	require.Equal(t, b.ReceiptKeys()[0], c.ReceiptKeys()[1], "what is handed out is a copy")
}

func TestLoadKeysOfADirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	newer, older := NewKeys(), NewKeys()
	write := func(name string, f keyFile) {
		b, err := json.Marshal(f)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	write("1-new.json", keyFile{
		Signing:  []signingEntry{{Seed: encode(newer.signing[0].private.Seed())}},
		Receipts: []string{encode(newer.receipts[0])},
	})
	write("2-old.json", keyFile{
		Signing:  []signingEntry{{KID: older.KIDs()[0], Seed: encode(older.signing[0].private.Seed())}},
		Receipts: []string{encode(older.receipts[0])},
		Subject:  encode(older.subject),
	})
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".hidden.json"), []byte("no"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README"), []byte("no"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "..data"), 0o700))
	k, err := LoadKeys(dir)
	require.NoError(t, err)
	require.Equal(t, []string{newer.KIDs()[0], older.KIDs()[0]}, k.KIDs(), "the first by name signs")
	require.Equal(t, [][]byte{newer.receipts[0], older.receipts[0]}, k.ReceiptKeys())
	require.Equal(t, older.subject, k.SubjectKey())
}

func TestLoadKeysRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := NewKeys()
	seed, receipt, subject := encode(good.signing[0].private.Seed()), encode(good.receipts[0]), encode(good.subject)
	text := func(seed, receipt, subject string) string {
		return `{"signing":[{"seed":"` + seed + `"}],"receipts":["` + receipt + `"],"subject":"` + subject + `"}`
	}
	for name, row := range map[string]struct{ file, want string }{
		"empty":               {"", "not a key file"},
		"not json":            {"-----BEGIN PRIVATE KEY-----", "not a key file"},
		"an array":            {"[]", "not a key file"},
		"nothing in it":       {"{}", "signing: at least one key"},
		"unknown field":       {`{"sign":[]}`, `unknown field "sign"`},
		"two objects":         {text(seed, receipt, subject) + "{}", "something follows"},
		"short receipt":       {text(seed, encode(good.receipts[0][:31]), subject), "receipts[0]: has 31 bytes, must have 32"},
		"long seed":           {text(encode(append(good.signing[0].private.Seed(), 1)), receipt, subject), "signing[0].seed: has 33 bytes"},
		"zero subject":        {text(seed, receipt, encode(make([]byte, 32))), "subject: is not random"},
		"patterned receipt":   {text(seed, encode(bytes.Repeat([]byte("password"), 4)), subject), "receipts[0]: is not random"},
		"same secret twice":   {text(seed, seed, subject), "receipts[0]: the same secret stands twice"},
		"padded base64":       {text(seed+"=", receipt, subject), "signing[0].seed: not base64url"},
		"standard base64":     {text(seed, "+/"+receipt[2:], subject), "receipts[0]: not base64url"},
		"no subject":          {text(seed, receipt, ""), "subject: the key is missing"},
		"no receipt":          {`{"signing":[{"seed":"` + seed + `"}],"subject":"` + subject + `"}`, "receipts: at least one key"},
		"kid of another seed": {`{"signing":[{"kid":"a","seed":"` + seed + `"}],"receipts":["` + receipt + `"],"subject":"` + subject + `"}`, "signing[0].kid: must be " + good.KIDs()[0]},
		"huge":                {`{"signing":[],` + strings.Repeat(" ", maxKeyFile) + `}`, "is larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "k.json")
			require.NoError(t, os.WriteFile(path, []byte(row.file), 0o600))
			_, err := LoadKeys(path)
			require.ErrorContains(t, err, row.want)
			require.ErrorContains(t, err, path, "an operator must see which file it is")
			require.NotContains(t, err.Error(), "\n", "one clear line")
			require.NotContains(t, err.Error(), receipt, "no secret in an error")
		})
	}
}

func TestLoadKeysOfNoPlace(t *testing.T) {
	t.Parallel()
	_, err := LoadKeys(filepath.Join(t.TempDir(), "none.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
	empty := t.TempDir()
	_, err = LoadKeys(empty)
	require.ErrorContains(t, err, "no *.json file")
	two := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(two, "a.json"), NewKeys().Encode(), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(two, "b.json"), NewKeys().Encode(), 0o600))
	_, err = LoadKeys(two)
	require.ErrorContains(t, err, "b.json: subject: given twice")
}

func TestKeepKeysMakesThemOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "keys.json")
	got := make([]*Keys, 8)
	errs := make([]error, len(got))
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i], errs[i] = KeepKeys(path) })
	}
	wg.Wait()
	for i := range got {
		require.NoError(t, errs[i])
		require.True(t, got[0].equal(got[i]), "all who come at once end with the same keys")
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing is left beside the file")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "the service alone may read it")
	require.NoError(t, os.WriteFile(path, []byte("{}"), 0o600))
	_, err = KeepKeys(path)
	require.ErrorContains(t, err, "signing", "a damaged file is never replaced")
}

// A rotation over several instances that are restarted one after the other: whichever
// of two neighbouring key files signs, the other verifies, and nobody loses a place.
func TestKeysRotateWithoutAGap(t *testing.T) {
	t.Parallel()
	made := NewKeys()
	prepared, err := made.Prepared()
	require.NoError(t, err)
	require.True(t, prepared.IsPrepared())
	_, err = prepared.Prepared()
	require.ErrorContains(t, err, "already")
	_, err = prepared.Retired()
	require.ErrorContains(t, err, "rotate first")
	read, err := ReadKeys(prepared.Encode())
	require.NoError(t, err)
	require.True(t, prepared.equal(read) && read.IsPrepared(), "also through its file")
	rotated := read.Rotated()
	require.Equal(t, prepared.KIDs()[1], rotated.KID(), "the prepared ones sign")
	retired, err := rotated.Retired()
	require.NoError(t, err)
	require.Equal(t, []string{rotated.KID()}, retired.KIDs())

	steps := []*Keys{made, prepared, rotated, retired}
	now := time.Now().Truncate(time.Second)
	grant := waitroom.Grant{Event: "e", Entry: "p", Subject: "p", JTI: "j", AdmittedAt: now, ClaimBy: now.Add(time.Hour)}
	verifies := func(signs, reads *Keys) bool {
		by, err := NewPasses(signs, "https://wait.example")
		require.NoError(t, err)
		at, err := NewPasses(reads, "https://wait.example")
		require.NoError(t, err)
		token, err := by.Mint(grant)
		require.NoError(t, err)
		_, err = at.Verify(token, "e")
		known := slices.ContainsFunc(reads.ReceiptKeys(), func(k []byte) bool { return slices.Equal(k, signs.ReceiptKeys()[0]) })
		require.Equal(t, err == nil, known, "a receipt goes as a token does")
		require.Equal(t, signs.SubjectKey(), reads.SubjectKey())
		return err == nil
	}
	for i := range steps[:3] {
		require.True(t, verifies(steps[i+1], steps[i]), "what step %d signs is good at step %d", i+1, i)
		if i < 2 {
			require.True(t, verifies(steps[i], steps[i+1]))
		}
	}
	require.True(t, verifies(made, rotated))
	require.False(t, verifies(made, retired), "retired")
	_, err = ReadKeys([]byte(strings.Replace(string(made.Encode()), "{", `{"prepared":true,`, 1)))
	require.ErrorContains(t, err, "prepared: wants")
}
