select {columns:names}
from {relation:name} {version:fragment}
{where:fragment}
{order:fragment}
