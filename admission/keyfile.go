package admission

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxKeyFile is the most bytes that a key file may have; a real one has some hundreds.
const maxKeyFile = 64 << 10

// keyFile is how keys are written: JSON, every secret 32 bytes in base64url
// without padding.
type keyFile struct {
	// Signing are Ed25519 seeds: the first signs entry tokens, all verify them.
	Signing []signingEntry `json:"signing"`
	// Receipts are HMAC keys: the first signs receipts, all verify them.
	Receipts []string `json:"receipts"`
	// Subject is the HMAC key that turns a site's subject into an entry id.
	Subject string `json:"subject,omitempty"`
	// Prepared says that the last signing and receipt keys are the next to sign.
	Prepared bool `json:"prepared,omitempty"`
}

// signingEntry is one signing key. KID is for the reader; if it is there, it must
// be the one that follows from the seed.
type signingEntry struct {
	KID  string `json:"kid,omitempty"`
	Seed string `json:"seed"`
}

// LoadKeys reads keys from a file, or from every *.json file of a directory in
// the order of their names, joined: the first signing key and the first receipt
// key sign, all verify, and exactly one file holds the subject key. Names that
// begin with a dot are passed over. Short, patterned or doubled secrets are
// refused. The error names the file and what is wrong with it.
func LoadKeys(path string) (*Keys, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	names := []string{path}
	if info.IsDir() {
		if names, err = keyFiles(path); err != nil {
			return nil, err
		}
	}
	var all keyFile
	for _, name := range names {
		if err := readKeyFile(name, &all); err != nil {
			return nil, fmt.Errorf("keys %s: %w", name, err)
		}
	}
	k, err := all.keys()
	if err != nil {
		return nil, fmt.Errorf("keys %s: %w", path, err)
	}
	return k, nil
}

// KeepKeys reads the keys in the file, and makes the file with fresh ones first
// if there is none: so that a service with its data on one machine's disk knows
// its receipts again after a restart. Two processes that make it at once end with
// the same keys.
func KeepKeys(path string) (*Keys, error) {
	k, err := LoadKeys(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	// The whole file appears at once under its name, or not at all; Link refuses
	// to replace the one that another process was quicker to make.
	tmp, err := os.CreateTemp(filepath.Dir(path), ".keys-*")
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(NewKeys().Encode())
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return LoadKeys(path)
}

// Encode writes the keys as LoadKeys reads them. Whoever holds the bytes can let
// anybody in: keep them readable by the service alone.
func (k *Keys) Encode() []byte {
	f := keyFile{Subject: encode(k.subject), Prepared: k.prepared}
	for _, s := range k.signing {
		f.Signing = append(f.Signing, signingEntry{KID: s.kid, Seed: encode(s.private.Seed())})
	}
	for _, r := range k.receipts {
		f.Receipts = append(f.Receipts, encode(r))
	}
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		panic("admission: keys always encode: " + err.Error())
	}
	return append(b, '\n')
}

// ReadKeys reads keys from the content of one file, as LoadKeys does from its name.
func ReadKeys(b []byte) (*Keys, error) { return decodeKeys(b) }

// decodeKeys reads keys from the bytes of one file.
func decodeKeys(b []byte) (*Keys, error) {
	var f keyFile
	if err := f.add(b); err != nil {
		return nil, err
	}
	return f.keys()
}

func keyFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && filepath.Ext(e.Name()) == ".json" {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("keys %s: no *.json file in this directory", dir)
	}
	return names, nil
}

func readKeyFile(name string, into *keyFile) (err error) {
	file, err := os.Open(name) //nolint:gosec // the operator names the file
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	b, err := io.ReadAll(io.LimitReader(file, maxKeyFile+1))
	if err != nil {
		return err
	}
	if len(b) > maxKeyFile {
		return fmt.Errorf("is larger than %d bytes", maxKeyFile)
	}
	return into.add(b)
}

// add decodes one file strictly and appends what it holds.
func (f *keyFile) add(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var one keyFile
	if err := dec.Decode(&one); err != nil {
		return fmt.Errorf("not a key file: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("not a key file: something follows the object")
	}
	if one.Subject != "" {
		if f.Subject != "" {
			return errors.New("subject: given twice, must be one")
		}
		f.Subject = one.Subject
	}
	f.Prepared = one.Prepared // of the last file, whose keys are the last
	f.Signing = append(f.Signing, one.Signing...)
	f.Receipts = append(f.Receipts, one.Receipts...)
	return nil
}

// keys checks every secret and gives all faults at once.
func (f *keyFile) keys() (*Keys, error) {
	var (
		k      Keys
		seen   [][]byte
		faults []error
	)
	take := func(name, value string) []byte {
		b, err := base64.RawURLEncoding.Strict().DecodeString(value)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: not base64url without padding", name))
			return nil
		}
		if err := checkSecret(b); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
			return nil
		}
		if slices.ContainsFunc(seen, func(o []byte) bool { return bytes.Equal(o, b) }) {
			faults = append(faults, fmt.Errorf("%s: the same secret stands twice", name))
			return nil
		}
		seen = append(seen, b)
		return b
	}
	for i, s := range f.Signing {
		name := fmt.Sprintf("signing[%d]", i)
		seed := take(name+".seed", s.Seed)
		if seed == nil {
			continue
		}
		key := newSigningKey(seed)
		if s.KID != "" && s.KID != key.kid {
			faults = append(faults, fmt.Errorf("%s.kid: must be %s for this seed", name, key.kid))
		}
		k.signing = append(k.signing, key)
	}
	for i, r := range f.Receipts {
		if secret := take(fmt.Sprintf("receipts[%d]", i), r); secret != nil {
			k.receipts = append(k.receipts, secret)
		}
	}
	if len(f.Signing) == 0 {
		faults = append(faults, errors.New("signing: at least one key is needed"))
	}
	if len(f.Receipts) == 0 {
		faults = append(faults, errors.New("receipts: at least one key is needed"))
	}
	if f.Subject == "" {
		faults = append(faults, errors.New("subject: the key is missing"))
	} else {
		k.subject = take("subject", f.Subject)
	}
	if k.prepared = f.Prepared; k.prepared && (len(f.Signing) < 2 || len(f.Receipts) < 2) {
		faults = append(faults, errors.New("prepared: wants a second signing and receipt key"))
	}
	if len(faults) > 0 {
		return nil, errors.New(oneLine(faults))
	}
	return &k, nil
}

// oneLine joins faults for an operator who sees them as one line.
func oneLine(faults []error) string {
	parts := make([]string, len(faults))
	for i, f := range faults {
		parts[i] = f.Error()
	}
	return strings.Join(parts, "; ")
}
