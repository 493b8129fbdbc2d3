package target

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"

	"rbd/wire"
)

// Identities are made of names, so that they are the same after every restart and
// differ between exports.

// identitySpace is the name space (RFC 9562) of the UUIDs that are made here.
const identitySpace = "https://rbd.io/namespace"

// namespaceUUID is the UUID of a namespace that was given none.
func namespaceUUID(nqn string, nsid uint32) wire.UUID {
	space := uuid.NewSHA1(uuid.NameSpaceURL, []byte(identitySpace))
	return wire.UUID(uuid.NewSHA1(space, fmt.Appendf(nil, "%s/%d", nqn, nsid)))
}

// namespaceNGUID is the NGUID that goes with a UUID.
func namespaceNGUID(id wire.UUID) wire.UUID {
	return wire.UUID(uuid.NewSHA1(uuid.UUID(id), []byte("nguid")))
}

// serialNumber is the serial number of a subsystem.
func serialNumber(nqn string) string {
	sum := sha256.Sum256([]byte(nqn))
	return hex.EncodeToString(sum[:10])
}
