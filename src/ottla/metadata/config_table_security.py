"""Broker configurations of TLS, SASL, delegation tokens and authorization, by Kafka's names.

A listener may override each of them as `listener.name.<listener>.<key>`; `configs.py` knows that form. What is a
Java class in Kafka is accepted by name and has no effect.
"""

from typing import Final

from ottla.metadata.config_key import (
    ConfigKey,
    between,
    double,
    flag,
    int16,
    int32,
    int64,
    java_class,
    names,
    one_of,
    secret,
    text,
)

CLIENT_AUTH: Final = one_of("required", "requested", "none")
PROTOCOLS: Final = one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SIGNATURES: Final = one_of("ES256", "RS256", ignore_case=True)

# fmt: off
AUTHORIZATION_KEYS: Final[tuple[ConfigKey, ...]] = (
    text("authorizer.class.name", "", "Authorizer; empty allows everything."),
    int64("connections.max.reauth.ms", 0, "Time after which a client must log in again; 0 is never."),
    int64("delegation.token.expiry.check.interval.ms", 3_600_000, "Time between looks for expired tokens.", minimum=1),
    int64("delegation.token.expiry.time.ms", 86_400_000, "How long a token is valid unless renewed.", minimum=1),
    int64("delegation.token.max.lifetime.ms", 604_800_000, "How long a token may be renewed.", minimum=1),
    secret("delegation.token.secret.key", None, "Secret that signs delegation tokens."),
    java_class("principal.builder.class", None, "Java class that names users; has no effect here."),
    text("security.inter.broker.protocol", "PLAINTEXT", "Security protocol between brokers.", check=PROTOCOLS),
    text("security.providers", None, "Java security providers; has no effect here."),
)

TLS_KEYS: Final[tuple[ConfigKey, ...]] = (
    flag("ssl.allow.dn.changes", False, "Let a reloaded certificate have another name."),
    flag("ssl.allow.san.changes", False, "Let a reloaded certificate have other alternative names."),
    names("ssl.cipher.suites", (), "Cipher suites allowed; empty is the library's choice."),
    text("ssl.client.auth", "none", "Whether clients must show a certificate.", check=CLIENT_AUTH),
    names("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), "TLS versions allowed."),
    text("ssl.endpoint.identification.algorithm", "https", "How a server's name is checked; empty is not at all."),
    java_class("ssl.engine.factory.class", None, "Java class that makes TLS engines; has no effect here."),
    secret("ssl.key.password", None, "Password of the private key."),
    text("ssl.keymanager.algorithm", "SunX509", "Java key manager; has no effect here."),
    secret("ssl.keystore.certificate.chain", None, "Certificate chain as PEM text."),
    secret("ssl.keystore.key", None, "Private key as PEM text."),
    text("ssl.keystore.location", None, "File with certificate and key."),
    secret("ssl.keystore.password", None, "Password of the key store."),
    text("ssl.keystore.type", "JKS", "Format of the key store; we read PEM."),
    text("ssl.principal.mapping.rules", "DEFAULT", "Rules from a certificate's name to a user."),
    text("ssl.protocol", "TLSv1.3", "TLS version preferred."),
    text("ssl.provider", None, "Java TLS provider; has no effect here."),
    text("ssl.secure.random.implementation", None, "Java random source; has no effect here."),
    text("ssl.trustmanager.algorithm", "PKIX", "Java trust manager; has no effect here."),
    secret("ssl.truststore.certificates", None, "Trusted certificates as PEM text."),
    text("ssl.truststore.location", None, "File with trusted certificates."),
    secret("ssl.truststore.password", None, "Password of the trust store."),
    text("ssl.truststore.type", "JKS", "Format of the trust store; we read PEM."),
)

SASL_KEYS: Final[tuple[ConfigKey, ...]] = (
    java_class("sasl.client.callback.handler.class", None, "Java client callback; has no effect here."),
    names("sasl.enabled.mechanisms", ("GSSAPI",), "SASL mechanisms offered."),
    secret("sasl.jaas.config", None, "Login configuration in JAAS form."),
    text("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", "Path of kinit."),
    int64("sasl.kerberos.min.time.before.relogin", 60_000, "Accepted and shown; Kerberos is not offered.", live=True),
    names("sasl.kerberos.principal.to.local.rules", ("DEFAULT",), "Rules from a Kerberos name to a user."),
    text("sasl.kerberos.service.name", None, "Kerberos service name."),
    double("sasl.kerberos.ticket.renew.jitter", 0.05, "Random part of the renewal time."),
    double("sasl.kerberos.ticket.renew.window.factor", 0.8, "Share of a ticket's life before it is renewed."),
    java_class("sasl.login.callback.handler.class", None, "Java login callback; has no effect here."),
    java_class("sasl.login.class", None, "Java login class; has no effect here."),
    int32("sasl.login.connect.timeout.ms", None, "Longest wait to connect to the identity provider."),
    int32("sasl.login.read.timeout.ms", None, "Longest wait for the identity provider's answer."),
    int16("sasl.login.refresh.buffer.seconds", 300, "Time before expiry at which a login is renewed."),
    int16("sasl.login.refresh.min.period.seconds", 60, "Rest between renewals."),
    double("sasl.login.refresh.window.factor", 0.8, "Share of a login's life before it is renewed."),
    double("sasl.login.refresh.window.jitter", 0.05, "Random part of that time."),
    int64("sasl.login.retry.backoff.max.ms", 10_000, "Longest rest between login attempts."),
    int64("sasl.login.retry.backoff.ms", 100, "First rest between login attempts."),
    text("sasl.mechanism.controller.protocol", "GSSAPI", "SASL mechanism towards controllers."),
    text("sasl.mechanism.inter.broker.protocol", "GSSAPI", "SASL mechanism between brokers."),
    java_class("sasl.server.callback.handler.class", None, "Java server callback; has no effect here."),
    int32("sasl.server.max.receive.size", 524_288, "Largest message accepted before a login is complete."),
)

OAUTH_KEYS: Final[tuple[ConfigKey, ...]] = (
    text("sasl.oauthbearer.assertion.algorithm", "RS256", "Signature of the assertion.", check=SIGNATURES),
    text("sasl.oauthbearer.assertion.claim.aud", None, "Audience claim of the assertion."),
    int32("sasl.oauthbearer.assertion.claim.exp.seconds", 300, "Life of the assertion.", check=between(0, 86_400)),
    text("sasl.oauthbearer.assertion.claim.iss", None, "Issuer claim of the assertion."),
    flag("sasl.oauthbearer.assertion.claim.jti.include", False, "Give every assertion an id."),
    int32("sasl.oauthbearer.assertion.claim.nbf.seconds", 60, "Clock tolerance of it.", check=between(0, 3600)),
    text("sasl.oauthbearer.assertion.claim.sub", None, "Subject claim of the assertion."),
    text("sasl.oauthbearer.assertion.file", None, "File that holds a ready assertion."),
    text("sasl.oauthbearer.assertion.private.key.file", None, "File of the key that signs assertions."),
    secret("sasl.oauthbearer.assertion.private.key.passphrase", None, "Password of that key."),
    text("sasl.oauthbearer.assertion.template.file", None, "File with more claims."),
    text("sasl.oauthbearer.client.credentials.client.id", None, "Client id for the identity provider."),
    secret("sasl.oauthbearer.client.credentials.client.secret", None, "Client secret for the identity provider."),
    int32("sasl.oauthbearer.clock.skew.seconds", 30, "Difference of clocks tolerated in a token."),
    names("sasl.oauthbearer.expected.audience", (), "Audiences a token must name one of."),
    text("sasl.oauthbearer.expected.issuer", None, "Issuer a token must name."),
    int64("sasl.oauthbearer.jwks.endpoint.refresh.ms", 3_600_000, "Time between fetches of the provider's keys."),
    int64("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10_000, "Longest rest between such attempts."),
    int64("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100, "First rest between such attempts."),
    text("sasl.oauthbearer.jwks.endpoint.url", None, "Where the provider's keys are."),
    java_class("sasl.oauthbearer.jwt.retriever.class", None, "Java class that gets tokens; has no effect here."),
    java_class("sasl.oauthbearer.jwt.validator.class", None, "Java class that checks tokens; has no effect here."),
    text("sasl.oauthbearer.scope", None, "Scope asked of the provider."),
    text("sasl.oauthbearer.scope.claim.name", "scope", "Claim that holds the scope."),
    text("sasl.oauthbearer.sub.claim.name", "sub", "Claim that holds the user."),
    text("sasl.oauthbearer.token.endpoint.url", None, "Where tokens are had."),
)
# fmt: on

SECURITY_KEYS: Final = AUTHORIZATION_KEYS + TLS_KEYS + SASL_KEYS + OAUTH_KEYS
