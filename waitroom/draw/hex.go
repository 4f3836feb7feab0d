package draw

import "encoding/hex"

// Hex is bytes, written as hexadecimal digits.
type Hex []byte

// MarshalText is the hexadecimal form.
func (h Hex) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h), nil }

// UnmarshalText reads hexadecimal digits.
func (h *Hex) UnmarshalText(text []byte) (err error) {
	*h, err = hex.AppendDecode(nil, text)
	return err
}
