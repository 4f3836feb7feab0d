package ticket

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// packed is a one-dimensional array as PostgreSQL's binary protocol has it. A group's
// lists are packed here, each into a buffer of its exact size: the driver packs element
// by element, through an interface, into a buffer that grows, which was a tenth of all
// work of this process and half of what it allocated.
type packed []byte

// pack packs a column of a list and names its elements' type.
func pack(column any) (packed, string, error) {
	switch c := column.(type) {
	case []string:
		return packTexts(c, pgtype.TextOID), "text", nil
	case [][]byte:
		return packTexts(c, pgtype.ByteaOID), "bytea", nil
	case []int64:
		p := packHead(len(c), 12*len(c), pgtype.Int8OID)
		for _, n := range c {
			p = binary.BigEndian.AppendUint32(p, 8)
			p = binary.BigEndian.AppendUint64(p, uint64(n)) //nolint:gosec // the same bits
		}
		return p, "bigint", nil
	}
	return nil, "", fmt.Errorf("no array is made of a %T", column)
}

func packTexts[T string | []byte](all []T, element uint32) packed {
	size := 0
	for _, s := range all {
		size += 4 + len(s)
	}
	p := packHead(len(all), size, element)
	for _, s := range all {
		p = binary.BigEndian.AppendUint32(p, uint32(len(s))) //nolint:gosec // far below 4 GiB
		p = append(p, s...)
	}
	return p
}

// packHead starts an array of n elements: dimensions, no nulls, the element's type, and
// of the one dimension its length and first index.
func packHead(n, size int, element uint32) packed {
	p := make(packed, 0, 20+size)
	p = binary.BigEndian.AppendUint32(p, uint32(min(n, 1))) //nolint:gosec // 0 or 1
	p = binary.BigEndian.AppendUint32(p, 0)
	p = binary.BigEndian.AppendUint32(p, element)
	if n > 0 {
		p = binary.BigEndian.AppendUint32(p, uint32(n)) //nolint:gosec // far below 4 GiB
		p = binary.BigEndian.AppendUint32(p, 1)
	}
	return p
}

// takePacked makes a new connection pass packed arrays on as they are.
func takePacked(_ context.Context, conn *pgx.Conn) error {
	types := conn.TypeMap()
	for _, array := range []uint32{pgtype.TextArrayOID, pgtype.Int8ArrayOID, pgtype.ByteaArrayOID} {
		known, ok := types.TypeForOID(array)
		if !ok {
			return fmt.Errorf("array type %d is not known to the driver", array)
		}
		types.RegisterType(&pgtype.Type{Name: known.Name, OID: array, Codec: packedCodec{known.Codec}})
	}
	return nil
}

// packedCodec is an array's codec that knows packed too.
type packedCodec struct{ pgtype.Codec }

// PlanEncode says how a value is written.
func (c packedCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(packed); ok && format == pgtype.BinaryFormatCode {
		return packedPlan{}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

type packedPlan struct{}

// Encode appends the value as it is.
func (packedPlan) Encode(value any, buf []byte) ([]byte, error) {
	return append(buf, value.(packed)...), nil
}
